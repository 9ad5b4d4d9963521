"""The Patroni that keeps the engine's servers, asked at its REST API for its version.

    GET http://db1:8008/patroni  ──▶  {"patroni": {"version": "4.1.5", ...}, ...}

One rule: a Patroni that does not answer is no reason to refuse; one that loses commits is.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.request
from typing import Final

from journal.engine import without_secret

# Before it, a leader that had paused wrote over the key of its successor.
OLDEST: Final = (3, 0, 3)
_SECONDS: Final = 2.0
_BYTES_MAX: Final = 1 << 20


class NoPatroni(Exception):
    """Nothing there answers as a Patroni does; the text is one sentence."""


def patroni_version(url: str) -> str:
    """Return the version of the Patroni at this address; raise NoPatroni. Blocks."""
    said = without_secret(url)
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/patroni", timeout=_SECONDS) as answer:
            facts = json.loads(answer.read(_BYTES_MAX))
        version = facts["patroni"]["version"]
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise NoPatroni(f"the Patroni at {said} does not answer: {why}") from None
    except (ValueError, LookupError, TypeError):
        raise NoPatroni(f"{said} does not answer as a Patroni does") from None
    return str(version)


def why_bad_patroni(version: str, url: str) -> str:
    """Return why a Patroni of this version loses what was acknowledged; "": it does not."""
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if numbers is None or tuple(int(each or 0) for each in numbers.groups()) >= OLDEST:
        return ""
    oldest = ".".join(map(str, OLDEST))
    return (
        f"Patroni {version} at {without_secret(url)} loses acknowledged commits when its leader "
        f"pauses: install {oldest} or newer"
    )
