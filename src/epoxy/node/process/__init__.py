"""What every process needs: configuration, ports, signals, logs, exit codes."""
