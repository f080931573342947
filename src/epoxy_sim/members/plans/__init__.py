"""Plans aimed at one kind of fault each."""
