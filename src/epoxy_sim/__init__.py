"""The simulator: production code in virtual time; a nemesis that breaks things, and judges that know nothing of it."""
