"""The systems that are measured, each on this machine, one process for each region."""
