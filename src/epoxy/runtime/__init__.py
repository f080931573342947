"""What drives protocol code: the runner of flows, timers, admission control."""
