"""The storage engine: append-only journals that say only what is on disk.

A journal is a folder of segments; a segment is a file of records; a record names its item.
FORMAT.md draws the bytes. This package needs the standard library alone: Spark executors and the
tools for dead directories use it without the daemon.
"""
