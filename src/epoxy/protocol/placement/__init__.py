"""Which envoy hosts an actor: the ring, the envoys on it, and how one is chosen. Pure: time and dice are brought."""
