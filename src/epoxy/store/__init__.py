"""Ordered keys in transactions: the drivers of the `Store` port, and the layout of a replica's rows on it."""
