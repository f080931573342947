"""Who may do what, at one node: the grants in force, quotas, wrong tokens, and the audit log."""
