"""What each request does and answers."""

from kestrelpy.protocol.verbs.admin import answer_plain
from kestrelpy.protocol.verbs.browse import Browser
from kestrelpy.protocol.verbs.children import ack_up_to
from kestrelpy.protocol.verbs.delete_item import remove, withdraw
from kestrelpy.protocol.verbs.get import OPEN_FIRST, GetHandler
from kestrelpy.protocol.verbs.monitor import confirm, monitor
from kestrelpy.protocol.verbs.set import STORED, SetHandler

__all__ = [
    "OPEN_FIRST",
    "STORED",
    "Browser",
    "GetHandler",
    "SetHandler",
    "ack_up_to",
    "answer_plain",
    "confirm",
    "monitor",
    "remove",
    "withdraw",
]
