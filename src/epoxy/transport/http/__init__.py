"""HTTP/1.1 and WebSockets, server side."""
