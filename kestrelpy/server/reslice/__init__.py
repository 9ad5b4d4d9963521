"""The queues of a stopped server spread over another number of slices."""

from kestrelpy.server.reslice.reslice import Resliced, locked_folders, reslice

__all__ = ["Resliced", "locked_folders", "reslice"]
