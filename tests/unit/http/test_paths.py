"""Each route with a name in its path that no queue, stream or number can have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import pytest

from kestrelpy.http.app import openapi
from tests.support.http_client import web
from tests.support.zaqar import CLIENT

NAME = re.compile(r"\{(\w+)\}")
# A bad name, and the word of the answer that says why it is refused; "": any answer that the route
# declares.
BAD = {
    "a line feed": ("%0A", "control"), "one in front": ("%0Aa", "control"),
    "one at the end": ("a%0A", "control"), "a carriage return": ("a%0Db", "control"),
    "a tabulator": ("%09", "control"), "a NUL": ("%00", "NUL"), "DEL": ("%7F", "control"),
    "an escape": ("%1B%5B2J", "control"), "a control character beyond ASCII": ("%C2%85", ""),
    "a line separator": ("%E2%80%A8", ""), "129 bytes": ("a" * 129, ""), "3,000": ("a" * 3000, ""),
    "a dot": (".", ""), "an escaped dot": ("%2E", ""), "two dots": ("..", ""),
    "two escaped dots": ("%2e%2E", ""), "an escaped slash": ("%2F", "%2F"),
    "one within": ("a%2fb", "%2F"), "the end of another route": ("a%2Fmessages", "%2F"),
    "no UTF-8": ("%FF", "UTF-8"), "half a %": ("a%", "hexadecimal"), "a bad %": ("%zz", "hexadec"),
    "nothing": ("", "empty"), "a blank": ("%20", ""), "a plus": ("+", ""), "two": ("a+b+c", ""),
    "an escaped plus": ("%2B", ""), "a number beyond all": ("9" * 30, ""),
    "a negative number": ("-1", ""), "a picture": ("%F0%9F%98%80", ""),
    "an escaped %2F": ("%252F", ""),
}  # fmt: skip
# A stream's name goes on to the end of the path, and its id may be any text.
STREAM_WHY = dict.fromkeys(("control", "%2F", "empty"), "")


class Asked(NamedTuple):
    method: str
    path: str
    why: str
    declared: frozenset[str]


def asked(segment: str, why: str) -> list[Asked]:
    """Each described route with this segment in place of each of its names in turn."""
    found = list[Asked]()
    for path, methods in openapi()["paths"].items():
        is_stream = path.startswith("/streams/")
        for name in NAME.findall(path):
            url = NAME.sub("1", path.replace(f"{{{name}}}", segment))
            for method, said in methods.items():
                reason = STREAM_WHY.get(why, why) if is_stream else why
                declared = frozenset(said["responses"])
                found.append(Asked(method.upper(), url, reason, declared))
    assert len(found) > 50
    return found


async def test_each_answer_to_a_bad_name_is_one_that_its_route_declares(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for segment, why in BAD.values():
            for method, path, reason, declared in asked(segment, why):
                answer = await server.client.request(
                    method, "/", extensions={"target": path.encode()}, content=b"{}",
                    headers={"Content-Type": "application/json", "Client-ID": CLIENT},
                )  # fmt: skip
                what = (method, path, answer.status_code, answer.text)
                assert str(answer.status_code) in declared, what
                if reason:
                    assert answer.status_code == 400, what
                    assert method == "HEAD" or reason in answer.json()["description"], what


@pytest.mark.parametrize("end", ["%0A", "%0D%0A", "%7F", "%2F"])
async def test_no_route_is_found_by_a_path_with_more_at_its_end(tmp_path: Path, end: str) -> None:
    async with web(tmp_path) as server:
        for path in openapi()["paths"]:
            if path.startswith(("/streams/", "/events")):
                continue
            url = NAME.sub("jobs", path) + end
            answer = await server.client.get("/", extensions={"target": url.encode()})
            assert answer.status_code == 400, (url, answer.text)
        assert (await server.client.get("/admin/queues")).json()["queues"] == []


async def test_a_stream_is_read_by_the_name_that_its_category_tells(tmp_path: Path) -> None:
    """An id may have any character: a slash and a line feed are no end of it."""
    keys = [b"a%0Ab", b"%0A", b"a%2Fb", b"%2F", b"%7F", b"a%0D%0A", b"%C2%85", b"..", b"-"]
    async with web(tmp_path) as server:
        for key in keys:
            target = b"/streams/acc-%b" % key
            added = await server.client.post("/", extensions={"target": target}, content=b"x")
            assert added.status_code == 201, (target, added.text)
            assert added.json()["version"] == 1, key
        events = (await server.client.get("/categories/acc")).json()["events"]
        names = [each["stream"] for each in events]
        assert names == [f"acc-{unquote(key.decode())}" for key in keys]
        for name in names:
            read = await server.client.get(f"/streams/{quote(name, safe='')}")
            assert [each["body"] for each in read.json()["events"]] == ["x"], name
