"""What every process of the product needs: configuration, ports, signals, logs, exit codes."""
