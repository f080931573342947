"""Links between replicas: frames, authentication, reconnects."""
