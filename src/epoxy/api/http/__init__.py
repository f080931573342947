"""The HTTP API: router, routes, OpenAPI."""
