"""Several slices asked at once, numbers of jobs, and how a drain is tried."""

from __future__ import annotations

import asyncio
import json

import pytest

from kestrelpy.http.slices.asked import SliceAnswer
from kestrelpy.http.slices.ordered import all_of, each_of, renumbered, trial_of


@pytest.mark.parametrize(
    ("query", "body", "changed", "is_trial"),
    [
        ({}, b"", {"dry_run": "true"}, False),
        ({"dry_run": "false"}, b"", {"dry_run": "true"}, False),
        ({"dry_run": ""}, b"", {}, True),
        ({"dry_run": "false"}, b'{"dry_run": false}', {}, True),  # said twice: refused
        ({}, b'{"dry_run": true}', {}, True),
        ({}, b'{"dry_run": false}', {"dry_run": "true"}, False),
        ({}, b"{", {}, True),
    ],
)
def test_no_slice_is_asked_to_drain(
    query: dict[str, str], body: bytes, changed: dict[str, str], is_trial: bool
) -> None:
    found, sent, trial = trial_of(query, body)
    assert (found, trial) == (changed, is_trial)
    assert sent in (body, b"")


def test_a_job_has_the_number_that_clients_know_in_its_answer_and_its_address() -> None:
    headers = [(b"location", b"/admin/jobs/2"), (b"content-type", b"application/json")]
    said = renumbered(SliceAnswer(202, headers, b'{"id": 2, "state": "running"}'), 3, 4)
    assert json.loads(said.body) == {"id": 7, "state": "running"}
    assert said.headers[0] == (b"location", b"/admin/jobs/7")


def test_a_refusal_names_the_number_that_the_client_said() -> None:
    body = json.dumps({"title": "Not Found", "description": "there is no job 2: it never was"})
    said = renumbered(SliceAnswer(404, [], body.encode()), 3, 4, (2, 7))
    assert json.loads(said.body)["description"] == "there is no job 7: it never was"


async def test_answers_come_in_order_and_the_first_failure_is_raised() -> None:
    async def said(number: int, delay: int) -> SliceAnswer:
        for _ in range(delay):
            await asyncio.sleep(0)
        if number < 0:
            raise ValueError(number)
        return SliceAnswer(number, [], b"")

    assert [each.status for each in await all_of([said(1, 5), said(2, 0)])] == [1, 2]
    found = await each_of([said(-1, 3), said(2, 0)])
    assert isinstance(found[0], ValueError)
    with pytest.raises(ValueError, match="-1"):
        await all_of([said(1, 0), said(-1, 3), said(-2, 0)])
