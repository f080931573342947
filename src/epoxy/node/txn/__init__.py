"""The ordered engine of one replica: transactions."""
