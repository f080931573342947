"""The nouns of Epoxy. Imports nothing of ours."""
