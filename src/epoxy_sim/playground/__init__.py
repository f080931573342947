"""The per-key engine in a browser: campaigns, planted faults, and one message at a time by hand."""
