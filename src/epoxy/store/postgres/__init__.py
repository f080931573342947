"""The database that several nodes of a datacenter share, in a PostgreSQL."""
