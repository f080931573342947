"""The doors: HTTP for everybody, RESP for Redis clients."""
