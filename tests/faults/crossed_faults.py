from __future__ import annotations
from tests.faults.planted_faults import Fault
CROSSED: tuple[Fault, ...] = ()
KNOWN_CROSSED: dict[str, str] = {}
