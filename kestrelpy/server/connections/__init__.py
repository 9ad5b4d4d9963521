"""Sockets: one connection each, the memory they share, and where the daemon listens."""
