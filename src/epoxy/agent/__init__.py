"""The agent beside a server: it moves the bytes and watches the clock for `epoxy.protocol.elect`, which decides."""
