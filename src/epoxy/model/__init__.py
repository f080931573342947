"""Records, errors and quorums. Imports no other package of Epoxy."""
