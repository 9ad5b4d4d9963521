"""Kestrel's simple text protocol: requests and items are lines.

    > put jobs:        > get jobs 500     > get jobs       > confirm jobs 1
    > one              < :one             < :two           < +1
    > two
    >                  + done, with a number   - an error   : an item or a word   * nothing (more)
    < +2

One rule: a request becomes what a memcache client would send; nothing is decided here again.
"""

from kestrelpy.protocol.text.routed import ROUTED_TEXT
from kestrelpy.protocol.text.wire import TEXT

__all__ = ["ROUTED_TEXT", "TEXT"]
