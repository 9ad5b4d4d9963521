"""Snapshots of a queue, and the files of remembered ids and versions."""
