"""Who writes: one primary among servers that replicate by themselves. Pure: time, messages and reports in; messages,
what must be durable, and orders to the server out."""
