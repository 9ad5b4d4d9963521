"""Shared by the jobs: sessions, events, items, and the state of journals.

Its modules are imported by name: some need pyspark, and the others must not load these.
"""
