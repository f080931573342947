"""How soon a lease of a holder that died is another's, and what very many of them cost a node."""
