"""The bytes of every protocol that is measured, written by hand: a library would cost the load generator more than the
server, and differently for each."""
