"""Keys that more than one region writes, behind emulated distances, and failures that are no crashes."""
