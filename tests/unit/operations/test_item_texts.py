"""A text of an item is one row: with it every door takes the text, and every reader shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from journal.format.kinds import Tag, TextRow
from kestrelpy.errors import ClientError
from kestrelpy.operations import item_texts

_ROW: Final = TextRow("trace", Tag.CLIENT, 5)
_ROOT: Final = Path(__file__).parents[3]
# A row in the source of the table, before any other module has read the table.
_PLANTED: Final = r"""
import asyncio, pathlib, sys, tempfile, types

path = pathlib.Path("journal/format/kinds.py")
source = path.read_text()
for before, row in (
    ("    CLIENT = 24", "    TRACE = 128\n"),
    ("    TextRow(", "    TextRow('trace', Tag.TRACE, 9),\n"),
):
    assert source.count(before) == 1, before
    source = source.replace(before, row + before)
kinds = sys.modules["journal.format.kinds"] = types.ModuleType("journal.format.kinds")
exec(compile(source, path, "exec"), kinds.__dict__)

from kestrelpy.spark.files.columns import EVENT_COLUMNS, ITEM_COLUMNS
from kestrelpy.spark.schema import EXTRA
from tests.support.http_client import web
from tests.support.server_harness import ServerHarness

stage = ServerHarness()

def said(line):
    found = stage.say("eve", line)
    while not found:
        stage.pass_time(1)
        found = stage.client("eve").take()
    return found

assert said(b"set jobs/trace=a%20b 0 0 3\r\none") == b"STORED\r\n"
assert said(b"set jobs/trace=c/id=4/key=A 0 0 3\r\ntwo") == b"STORED\r\n"
assert b"1 to 9" in said(b"set jobs/trace=0123456789 0 0 3\r\ntwo")
assert b"does not go with get" in said(b"get jobs/trace=c")
assert said(b"move jobs other 1") == b"1\r\n"
stage.cut_power()
assert b"STAT trace a%20b\r\n" in said(b"stats other/item=1"), "a move and a power cut keep it"
assert b"STAT trace c\r\n" in said(b"stats jobs/item=2")
for columns in (EVENT_COLUMNS, ITEM_COLUMNS):
    assert "trace" in columns
assert all("trace" in [each.name for each in some] for some in EXTRA.values())

async def over_http(folder):
    async with web(folder) as server:
        async def post(what, **headers):
            body = b"x" if what == "items" else b""
            found = await server.client.post(f"/queues/jobs/{what}", content=body, headers=headers)
            return found.status_code, found
        assert (await post("items", **{"Item-Trace": "0123456789"}))[0] == 400
        for trace in ("t 1", "t 2"):
            assert (await post("items", **{"Item-Trace": trace}))[0] == 201
        shown = (await server.client.get("/admin/queues/jobs/items/1")).json()
        assert shown["trace"] == "t 1"
        listed = (await server.client.get("/admin/queues/jobs/items")).json()["items"]
        assert [each["trace"] for each in listed] == ["t 1", "t 2"]
        _, found = await post("leases")
        assert found.json()["leases"][0]["trace"] == "t 1"
        _, found = await post("leases", Accept="application/octet-stream")
        assert found.headers["Item-Trace"] == "t%202"
        described = (await server.client.get("/openapi.json")).text
        assert "Item-Trace" in described and '"trace"' in described

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(over_http(pathlib.Path(folder)))
print("every wire")
"""


def test_one_row_of_the_table_brings_a_text_to_every_wire() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _PLANTED], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert run.stdout == "every wire\n", run.stderr


def test_a_text_is_taken_up_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_texts, "SENT_TEXTS", (_ROW,))
    assert item_texts.texts_sent({"trace": b"12345", "other": b"x"}) == ((Tag.CLIENT, b"12345"),)
    assert item_texts.texts_sent({}) == ()
    for text in (b"", b"123456"):
        with pytest.raises(ClientError, match="1 to 5 are allowed"):
            item_texts.texts_sent({"trace": text})


def test_each_text_is_shown_by_name_and_none_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_texts, "SENT_TEXTS", (_ROW,))
    assert item_texts.texts_shown(((Tag.CLIENT, b"a\xff"),)) == {"trace": "a\\xff"}
    assert item_texts.texts_named(()) == {"trace": None}


def test_a_text_with_a_way_in_of_its_own_has_no_other() -> None:
    assert item_texts.texts_sent({"client": b"me"}) == ()
    assert item_texts.texts_shown(((Tag.CLIENT, b"me"),)) == {}
