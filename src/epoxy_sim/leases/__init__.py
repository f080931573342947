"""Simulation of leases: values that end, and those who hold them, each with a clock of its own."""
