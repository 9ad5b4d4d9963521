"""State machines of hypothesis: how they run, and the answers that they read.

    run(Machine, examples)       in `make test-all`; in `make test` some of the examples
    run_for_long(Machine, soak)  in `make soak`: twice as many steps, new examples

One rule: an example that failed can be repeated from what is printed.
"""

from __future__ import annotations

import re
import sys
from typing import Final, NamedTuple

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.support.long_tests import share_of
from tests.support.soak import Soak

_ROUND: Final = 20  # examples of one seed
_VALUE: Final = re.compile(
    rb"VALUE (?P<key>\S+) \d+ (?P<bytes>\d+)(?: (?P<number>\d+))?"
    rb"(?: \d+ (?:\d+|-) (?P<attempts>\d+) (?P<state>\w+) - -)?\r\n"
)


def run(machine: type[RuleBasedStateMachine], examples: int, steps: int = 40) -> None:
    """Run this number of examples, or the share of a short run, each of this number of steps."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=share_of(examples), stateful_step_count=steps, deadline=None,
            print_blob=True, suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


def run_for_long(machine: type[RuleBasedStateMachine], soak: Soak) -> None:
    """Run new examples until the time of this test is over."""
    for number in soak.seeds():
        run(seed(number)(machine), _ROUND, steps=80)


def has_failed() -> bool:
    """True in the teardown of an example after a rule failed: the machine may be in any state, and
    a check at its end would hide the failure."""
    return sys.exc_info()[0] is not None


class Shown(NamedTuple):
    """One VALUE of an answer; a field that its line does not have is 0 or empty."""

    key: bytes
    number: int
    body: bytes
    state: bytes
    attempts: int


def values(answer: bytes) -> list[Shown]:
    """Every VALUE of one answer to `get` or `gets`, which ends in END."""
    found, at = [], 0
    while answer[at:] != b"END\r\n":
        line = _VALUE.match(answer, at)
        assert line is not None, answer[at : at + 100]
        end = line.end() + int(line["bytes"])
        assert answer[end : end + 2] == b"\r\n"
        body = answer[line.end() : end]
        number, attempts = int(line["number"] or 0), int(line["attempts"] or 0)
        found.append(Shown(line["key"], number, body, line["state"] or b"", attempts))
        at = end + 2
    return found
