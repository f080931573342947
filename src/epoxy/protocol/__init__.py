"""Every protocol, pure: state and message in, state and effects out. No IO, no clock, no randomness of its own."""
