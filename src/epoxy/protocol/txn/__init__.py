"""Transactions over several keys: EPaxos*, pure. Rules and reasons: docs/protocol/ordered.md."""
