"""The files that are published for a version: building them, judging them, installing them as a user would."""
