"""redis-py's own tests against a node, with a Valkey as the judge of what they ask for."""
