"""One node as a process: store, engines, links and APIs put together, started and stopped in order."""
