"""The `epoxy` command: the only room that knows of a terminal."""
