"""An online backup: what a node gathers for it, gives to it as a source, and streams."""
