"""Between processes: the HTTP server, the links between replicas, and an emulated WAN on them."""
