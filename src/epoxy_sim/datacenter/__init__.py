"""A datacenter of several nodes that share one database: played in one process."""
