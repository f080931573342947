"""The console: web pages for people, as files that every node serves."""
