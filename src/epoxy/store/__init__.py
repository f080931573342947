"""Drivers of the `Store` port (ordered keys, transactions), and the layout of a replica's rows."""
