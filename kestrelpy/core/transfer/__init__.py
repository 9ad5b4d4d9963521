"""Transfers of items from one queue to another."""

from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.transfers import Transfers

__all__ = ["TransferRequest", "Transfers"]
