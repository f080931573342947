"""Changes of members in virtual time."""
