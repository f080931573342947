"""Simulated disks: what a machine keeps when its process ends."""
