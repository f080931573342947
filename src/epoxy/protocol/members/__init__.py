"""Changing members, pure: the steps of a change, copying to new members, identities of stores."""
