"""The embedded store alone, on a simulated disk, against a model."""
