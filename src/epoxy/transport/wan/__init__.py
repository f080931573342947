"""A WAN emulated on one machine."""
