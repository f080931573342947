"""Scripts of clients: Lua 5.1 as in Redis, in a sandbox and within bounds."""
