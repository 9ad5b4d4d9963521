"""Shared by the jobs: sessions, events, items, and the state of journals."""
