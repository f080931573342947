"""`epoxy demo`: a whole cluster on this machine, one process for each region, and orders to hurt it while it runs."""
