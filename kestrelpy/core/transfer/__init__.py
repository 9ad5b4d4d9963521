"""Transfers of items from one queue to another."""

from kestrelpy.core.transfer.arrivals import Arrival, Permit
from kestrelpy.core.transfer.remote import Peer, RemoteTransfers
from kestrelpy.core.transfer.remote_transfer import HandOff, Letter, LetterAnswer, RemoteTransfer
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import TransferTarget
from kestrelpy.core.transfer.transfers import Transfers

__all__ = [
    "Arrival",
    "HandOff",
    "Letter",
    "LetterAnswer",
    "Peer",
    "Permit",
    "RemoteTransfer",
    "RemoteTransfers",
    "TransferRequest",
    "TransferTarget",
    "Transfers",
]
