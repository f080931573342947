"""Elect in virtual time: the production elector, send queue, handshake and codec, over servers, clocks and a network
of the simulator."""
