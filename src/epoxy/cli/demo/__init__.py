"""`epoxy demo`: a whole cluster on this machine, a process for each region, and orders to disturb it while it runs."""
