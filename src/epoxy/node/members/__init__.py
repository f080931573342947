"""A replica's part in changing members: copying, being copied from, coordinating."""
