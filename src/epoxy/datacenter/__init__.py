"""Several nodes of one datacenter, which share its replica: links between them, and the way of a request to the owner
of its key."""
