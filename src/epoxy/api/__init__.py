"""What clients talk to: HTTP and the Redis protocol, and the metrics both count."""
