"""Requests to actors beside a plain aiohttp handler, in one run."""
