"""Leader election among servers that replicate by themselves. Pure: time, messages and server reports in; messages,
records to save and orders to the server out."""
