"""`kestrelpy fleet status`: the state of a fleet at one moment."""

from __future__ import annotations

import json

import pytest

from journal.engine import Facts, Made, Member, Owner, Replica, Seat
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.fleet import fleet
from kestrelpy.cli.fleet.fleet import EngineAt
from kestrelpy.fleet import NoPatroni

A, B = Member("host-a", "10.0.0.1:22133"), Member("host-b")
AT = EngineAt("postgresql://kestrel:sekret@db1/kestrel", False, 3.0)


def facts(owner: Owner | None, *members: Seat, replicas: list[Replica] | None = None) -> Facts:
    owners = {} if owner is None else {1: owner}
    sizes = {"extent": 2048, "file": 1024}
    return Facts("18.6", 3, owners, list(members), replicas or [], sizes, 1, [])


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: Facts,
    as_json: bool = False,
) -> tuple[str, bool]:  # fmt: skip
    """Return the output, and whether the slice has an owner."""
    monkeypatch.setattr(fleet, "look", lambda at: found)
    try:
        fleet.status(AT, as_json, None)
        is_owned = True
    except CommandError as error:
        assert error.code == 1
        is_owned = False
    return capsys.readouterr().out, is_owned


@pytest.mark.parametrize(
    ("owner", "first", "is_owned"),
    [
        (None, "nobody has claimed it yet", False),
        (Owner(A, 7, 41, 0.2, False),
         "owned by host-a at 10.0.0.1:22133, epoch 7, last commit 200ms ago", True),
        (Owner(B, 7, 41, 12.0, False),
         "owned by host-b, epoch 7, which says nothing: last commit 12s ago", False),
        (Owner(B, 7, 41, 90.0, True), "released by host-b, last commit 1m30s ago", False),
        (Owner(B, 7, 41, 0.1, False, is_importing=True),
         "a data directory is being moved in by host-b, last commit 100ms ago", False),
        (Owner(A, 7, 41, -5.0, False),
         "owned by host-a at 10.0.0.1:22133, epoch 7, last commit 0ms ago", True),
    ],
)  # fmt: skip
def test_each_state_of_a_slice_has_its_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], owner: Owner | None,
    first: str, is_owned: bool,
) -> None:  # fmt: skip
    out, owned = said(monkeypatch, capsys, facts(owner))

    assert out.splitlines()[0] == f"slice 1: {first}"
    assert owned is is_owned


def test_the_takeover_of_the_owner_says_when_it_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = facts(Owner(A, 1, 0, 12.0, False, takeover_s=60.0))

    assert said(monkeypatch, capsys, slow)[1]


def test_those_that_wait_are_named_but_neither_the_owner_nor_those_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seats = [Seat(A, 3.0, 1.0), Seat(B, 3.0, 2.0), Seat(Member("gone"), 3.0, 9.5)]
    replicas = [Replica("n2", "sync", 0, None), Replica("n3", "", None, None)]
    found = facts(Owner(A, 1, 0, 0.1, False), *seats, replicas=replicas)

    assert said(monkeypatch, capsys, found)[0].splitlines()[1:] == [
        "waits: host-b, seen 2s ago",
        "server: PostgreSQL 18.6 at postgresql://kestrel@db1/kestrel",
        "standby: n2, sync, 0B behind",
        "standby: n3, whose state this role may not see (GRANT pg_read_all_stats)",
        "tables: version 3, 3.0KiB",
    ]
    out = json.loads(said(monkeypatch, capsys, found, as_json=True)[0])
    assert out["slices"] == [{
        "slice": 1, "state": "owned", "owner": "host-a", "address": "10.0.0.1:22133", "epoch": 1,
        "seq": 0, "age_ms": 100,
    }]  # fmt: skip
    assert [each["member"] for each in out["waiting"]] == ["host-b"]
    assert out["standbys"][0] == {"name": "n2", "state": "sync", "lag_bytes": 0, "lag_ms": None}
    assert "sekret" not in json.dumps(out)


def test_of_a_fleet_with_slices_each_member_is_named_with_those_that_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seats = [Seat(A, 3.0, 1.0, waits=(2, 3, 4, 7)), Seat(B, 3.0, 2.0, waits=(1,))]
    owner = Owner(A, 1, 0, 0.1, False)
    found = facts(owner, *seats)._replace(slices=2, owners={1: owner, 2: owner})

    lines = said(monkeypatch, capsys, found)[0].splitlines()
    assert lines[2:4] == [
        "waits: host-a at 10.0.0.1:22133, seen 1s ago, for 2-4 7",
        "waits: host-b, seen 2s ago, for 1",
    ]
    out = json.loads(said(monkeypatch, capsys, found, as_json=True)[0])
    assert [each["slices"] for each in out["waiting"]] == [[2, 3, 4, 7], [1]]


@pytest.mark.parametrize(("version", "code"), [("3.0.2", 1), ("4.1.5", 0), ("", 0)])
def test_init_and_status_ask_the_patroni_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str, code: int
) -> None:
    def ask(url: str) -> str:
        if not version:
            raise NoPatroni("the Patroni at http://db1:8008 does not answer: it is away")
        return version

    class Engine:
        """The part of the engine's package that `init` asks."""

        @staticmethod
        def make(address: str, is_single: bool, role: str) -> Made:
            return Made(False, [], [])

    monkeypatch.setattr(fleet, "patroni_version", ask)
    monkeypatch.setattr(fleet, "tools_of", lambda address: Engine)
    at = AT._replace(patroni="http://k:sekret@db1:8008")
    found = 0
    try:
        fleet.init(at, "")
    except CommandError as error:
        found = error.code
        assert str(error).startswith("Patroni 3.0.2 at http://k@db1:8008 loses")
    assert found == code
    out = capsys.readouterr().out
    assert ("warning: the Patroni" in out) is (version == "")

    monkeypatch.setattr(fleet, "look", lambda at: facts(Owner(A, 1, 0, 0.1, False)))
    fleet.status(at, False, None)
    out = capsys.readouterr().out
    assert "patroni: " in out and "sekret" not in out
