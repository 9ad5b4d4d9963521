"""Sockets: one connection each, the memory they share, and the listening sockets."""
