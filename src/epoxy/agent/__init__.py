"""The agent beside a server: the sockets, files and timers around `epoxy.protocol.elect`, which decides."""
