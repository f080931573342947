"""The store in a PostgreSQL that several nodes of a datacenter share."""
