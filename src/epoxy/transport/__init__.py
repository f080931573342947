"""Between processes: HTTP as this product speaks it, the links to the peers, and the emulation of a WAN on them."""
