"""The texts of an item on every wire: which ones a producer may give, and how they are shown.

    option, header ──▶ `texts_sent` ──▶ Terms ──▶ the item        (journal.format.kinds.ITEM_TEXTS)
                                                  the item ──▶ `texts_named` ──▶ fact, member

One rule: a wire asks here and names no text, so that a new text is one row of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from journal.format import SENT_TEXTS, ItemTexts, text_tagged
from kestrelpy.errors import ClientError


def texts_sent(sent: Mapping[str, bytes]) -> ItemTexts:
    """Return the texts that a producer gave, by their names; raise ClientError."""
    if not SENT_TEXTS:
        return ()
    found = []
    for row in SENT_TEXTS:
        text = sent.get(row.name)
        if text is None:
            continue
        if not 0 < len(text) <= row.bytes_max:
            raise ClientError(
                f"{row.name} has {len(text)} bytes: 1 to {row.bytes_max} are allowed"
            )
        found.append((row.tag, text))
    return tuple(sorted(found))


def texts_named(texts: ItemTexts) -> dict[str, bytes | None]:
    """Return the texts by name; None: the item does not have that one."""
    return {row.name: text_tagged(texts, row.tag) or None for row in SENT_TEXTS}


def facts_named(facts: NamedTuple) -> dict[str, Any]:
    """Return facts by name, and in the place of `texts` each text of the item."""
    found = facts._asdict()
    return found | texts_named(found.pop("texts")) if "texts" in found else found


def texts_shown(texts: ItemTexts) -> dict[str, str | None]:
    """Return the same for JSON."""
    return {
        name: text.decode("utf-8", "backslashreplace") if text is not None else None
        for name, text in texts_named(texts).items()
    }
