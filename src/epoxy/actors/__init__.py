"""Actors: a name reserved once in the world, its actor on an envoy of the datacenter that won it."""
