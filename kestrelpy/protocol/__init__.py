"""The memcache text protocol: bytes to commands, commands to replies, one conversation per
connection.

One rule: no sockets, no files, no clock. Bytes and the time come in as arguments; a reply leaves
when it is true.
"""

from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.log_limit import LogLimit, address_of
from kestrelpy.protocol.parse import Lines, check_name
from kestrelpy.protocol.ports import Host, Room, Talk, Work

__all__ = [
    "Conversation",
    "Host",
    "Lines",
    "LogLimit",
    "Room",
    "Talk",
    "Work",
    "address_of",
    "check_name",
]
