"""The text wire, as a conversation sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kestrelpy.protocol.parse import Form, Lines, Requests
from kestrelpy.protocol.text.form import TextForm
from kestrelpy.protocol.text.parser import TextParser
from kestrelpy.protocol.text.requests import TEXT_VERBS
from kestrelpy.protocol.verbs import Verbs


class TextWire:
    """Kestrel's simple text protocol."""

    name = "text"
    usual: Form | None = TextForm()
    verbs: Verbs = TEXT_VERBS

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection; it caches no lines."""
        return TextParser(limit_of)


TEXT: Final = TextWire()
