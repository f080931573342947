"""Who may do what: the rules over the table of grants, without IO."""
