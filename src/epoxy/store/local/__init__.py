"""One data directory for several processes of one machine: the first keeps it, and is the others' database."""
