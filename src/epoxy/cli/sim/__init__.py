"""`epoxy sim`: the simulator on the command line."""
