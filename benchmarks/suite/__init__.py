"""Epoxy beside etcd, Redis and PostgreSQL on one machine: `python -m benchmarks.suite --help`."""
