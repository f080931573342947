"""The store of nodes, or processes, that share a database: what is common to all databases."""
