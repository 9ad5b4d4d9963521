"""The shapes of the answers and of the bodies, for /openapi.json and for the check of input.

    facts (NamedTuple) ──▶ `shown` ──▶ the members of an answer
           └──────────────▶ `model_of` ──▶ its schema: both follow the facts

One rule: an answer has the members of its model, no more and no less.
"""

from __future__ import annotations

from types import GenericAlias, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from kestrelpy.fleet import FleetFacts, MemberFacts, SliceFacts, TakeoverFacts
from kestrelpy.http.models import TEXT_MEMBERS, Shape
from kestrelpy.operations import (
    ConnectionFacts,
    DamageFacts,
    DelayedFacts,
    Health,
    HeldItem,
    ItemFacts,
    JournalFacts,
    KeyFacts,
    LeaseFacts,
    ListedDeath,
    ListedItem,
    QueueFacts,
    ScheduleFacts,
    SegmentBucket,
    SegmentTotals,
    ServerFacts,
    facts_named,
)

IDS_MAX: Final = 10_000
RATE_MAX: Final = 100_000
_NUMBER_MAX: Final = (1 << 53) - 1


def shown(facts: NamedTuple) -> dict[str, Any]:
    """Return facts as the members of an answer."""
    return {
        name: value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
        for name, value in facts_named(facts).items()
    }


def _shown_type(hint: Any) -> Any:
    """Return the type of a fact in JSON: bytes are shown as text."""
    if hint is bytes:
        return str
    if isinstance(hint, UnionType) and bytes in get_args(hint):
        return str | None
    return hint


def model_of(facts: type[NamedTuple], title: str, /, **more: Any) -> Any:
    """Return the model of these facts, with `more` members."""
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(facts).items():
        fields |= TEXT_MEMBERS if name == "texts" else {name: (_shown_type(hint),)}
    return _struct(title, facts.__doc__, fields | more)


def _struct(title: str, what: str | None, fields: dict[str, Any]) -> Any:
    return defstruct(
        title, [(name, *more) for name, more in fields.items()], bases=(Shape,), kw_only=True,
        namespace={"__doc__": what},
    )  # fmt: skip


class Said(Struct, forbid_unknown_fields=True):
    """The shape of a body: no other member is allowed."""


class HealthNow(Shape):
    """How the server is; `unwell` names the first queues that are not ok, and `reason` says what
    is wrong with the server as a whole. `unserved`: the slices that nobody serves now."""

    status: Health
    reason: str | None
    unwell: list[str]
    uptime_seconds: int
    unserved: list[int]


class Ready(Shape):
    """Whether the server takes new items now, and if not, why; `/health` names the queues.
    `why` is stopping, readonly, quiescent, failed, disk_full or no_new_queue, or the sentence of a
    member of a fleet that does not own the data.
    `warning` says why it makes no new queue, null if it does."""

    ready: bool
    why: str | None
    warning: str | None


Server: Any = model_of(ServerFacts, "Server")
Facts: Any = model_of(QueueFacts, "QueueFacts")
QueueRow: Any = model_of(QueueFacts, "QueueRow", name=(str,))
Journal: Any = model_of(JournalFacts, "Journal")
Lease: Any = model_of(LeaseFacts, "LeaseRow")
Key: Any = model_of(KeyFacts, "Key")
Delayed: Any = model_of(DelayedFacts, "Delayed")
Schedule: Any = model_of(
    ScheduleFacts, "Schedule", name=(str,), words=(str | None,), coming=(list[int],)
)
Held: Any = model_of(HeldItem, "HeldItem")
Connection: Any = model_of(ConnectionFacts, "Connection", holds=(list[Held],))
Item: Any = model_of(
    ItemFacts, "Item", body=(str | None, None), base64=(str | None, None), is_cut=(bool, False),
    body_bytes=(int | None, None),
)  # fmt: skip


def page_of(name: str, member: str, row: Any, **more: Any) -> Any:
    """Return the model of a page: its rows, and the path of the next page."""
    return _struct(name, None, {member: (list[row],), "next": (str | None,)} | more)


class Stats(Shape):
    """The figures of the server, and of its queues by name."""

    server: Server
    queues: dict[str, Facts]
    next: str | None


QueuePage: Any = page_of("QueuePage", "queues", QueueRow, matched=(int,))
LeasePage: Any = page_of("LeasePage", "leases", Lease)
KeyPage: Any = page_of("KeyPage", "keys", Key)
SchedulePage: Any = page_of("SchedulePage", "schedules", Schedule)
ConnectionPage: Any = page_of("ConnectionPage", "connections", Connection)


class DelayedList(Shape):
    """The delayed items that are due next; `count` is that of all."""

    delayed: list[Delayed]
    count: int


class Setting(Shape):
    """A setting in force; `source` is file, declared or default."""

    name: str
    value: str
    source: str


class Queue(Shape):
    """A queue or a child."""

    name: str
    parent: str | None
    children: list[str]
    facts: Facts
    markers: dict[str, int]
    journal: Journal
    settings: list[Setting]


ItemRow: Any = model_of(
    ListedItem, "ItemRow", body=(str | None, None), base64=(str | None, None), is_cut=(bool,)
)
DeathRow: Any = model_of(ListedDeath, "DeathRow")
ItemPage: Any = page_of("ItemPage", "items", ItemRow)
DeathPage: Any = page_of("DeathPage", "dead", DeathRow)
PastPage: Any = page_of(
    "PastPage", "items", ItemRow, looked=(int,), is_whole=(bool,),
    marker_earliest=(int,), marker_latest=(int,),
)  # fmt: skip


class Count(Shape):
    """How many it concerned; `is_dry_run`: it would, and nothing is changed."""

    count: int
    is_dry_run: bool = False


class LeaseTold(Count, kw_only=True):
    """The result of an action on a lease: its item, its holder, and what the holder is told."""

    item: int
    holder: str
    told: str


class Reason(Shape):
    """The dead letters of one reason: how many, when the first and the last died, and that one."""

    reason: str
    count: int
    first_ms: int
    last_ms: int
    sample: int


class Reasons(Shape):
    """The dead letters by reason, the largest group first; `matched` counts the groups of all
    pages, `counted` their dead letters. Not `is_complete`: there are more than counted."""

    reasons: list[Reason]
    matched: int
    counted: int
    is_complete: bool
    next: str | None


Bucket: Any = model_of(SegmentBucket, "SegmentBucket")
Segments: Any = model_of(SegmentTotals, "Segments", by_share=(list[Bucket],))
Damage: Any = model_of(DamageFacts, "Damage")


class JournalState(Shape):
    """The journals of all queues together. `health`, `reason` and `unwell` are those of `/health`.
    `damages` counts what was found since the start but the rest of a crash; `damage` is the newest
    of all. `last_backup_ms` is when `kestrelpy backup` last ended, null if it never did."""

    health: Health
    reason: str | None
    unwell: list[str]
    disk_free_bytes: int | None
    syncs: int
    batches: int
    segments: Segments
    last_backup_ms: int | None
    damages: int
    damage: list[Damage]


Fleet: Any = model_of(
    FleetFacts, "Fleet",
    slices=(GenericAlias(list, model_of(SliceFacts, "Slice")),),
    members=(GenericAlias(list, model_of(MemberFacts, "Member")),),
    takeovers=(GenericAlias(list, model_of(TakeoverFacts, "Takeover")),),
)


class Mode(Said):
    """The mode of the server: readonly stores nothing, quiescent hands out nothing either."""

    mode: Literal["up", "readonly", "quiescent"]


class LifeEvent(Shape):
    """One event in the life of an item; `began_ms`: its delivery began then."""

    at_ms: int | None
    what: str
    who: str | None
    note: str | None
    began_ms: int | None


class Life(Shape):
    """Events of one item, the first one first; not `is_whole`: records of the journal are gone, or
    were not asked for. `looked_bytes` and `left_bytes` are of the journal."""

    id: int
    state: str
    events: list[LifeEvent]
    is_whole: bool
    looked_bytes: int
    left_bytes: int
    next: str | None


class Refusal(Shape):
    """Why items would not go, and how many."""

    why: str
    count: int


class Job(Shape):
    """Long work. `done` counts items; `total` is how many there may be at most. Of a dry run,
    `done` would go, and `refused` would not. `note` says what else is so now of these items."""

    id: int
    action: str
    queue: str
    by: str
    state: Literal["running", "done", "stopped", "failed"]
    done: int
    total: int
    error: str | None
    began_ms: int
    ended_ms: int | None
    is_dry_run: bool
    refused: list[Refusal]
    note: str | None


class JobList(Shape):
    """The jobs that are known, the newest first."""

    jobs: list[Job]


class FoundThing(Shape):
    """One thing that a text names. `link` is its path; `state` is `gone` if it is not kept."""

    kind: Literal["queue", "item", "marker", "token", "id", "key"]
    queue: str
    item: int | None
    state: str | None
    link: str


class FoundThings(Shape):
    """What a text names, a queue of that name first; `is_whole` is false if there may be more."""

    hits: list[FoundThing]
    is_whole: bool


Number = Annotated[int, Meta(ge=1, le=_NUMBER_MAX)]
UnixMs = Annotated[int, Meta(ge=0, le=_NUMBER_MAX)]


class DryRunBody(Said):
    """`dry_run`: change nothing, and say what would be done."""

    dry_run: Annotated[bool, Meta(extra_json_schema={"default": False})] | UnsetType = UNSET


class Which(Said):
    """Which dead letters: all that match every member."""

    reason: Annotated[str, Meta(max_length=1024)] | None = None
    died_from_ms: UnixMs = 0
    died_before_ms: UnixMs | None = None
    attempts_least: Annotated[int, Meta(ge=0, le=_NUMBER_MAX)] = 0


class Selection(Said):
    """Say one of `ids`, `filter` and `all`. `rate` is items a second."""

    ids: Annotated[list[Number], Meta(min_length=1, max_length=IDS_MAX)] | None = None
    filter: Which | None = None
    all: bool = False
    rate: Annotated[int, Meta(ge=1, le=RATE_MAX)] | None = None
    dry_run: Annotated[bool, Meta(extra_json_schema={"default": False})] | UnsetType = UNSET


class Redrive(Selection):
    """Dead letters to the end of their own queue, or of another."""

    target: str | None = None


class Move(Selection, kw_only=True):
    """Items to another queue: `count` ready ones or all, or dead letters."""

    target: str
    state: Literal["ready", "dead"] = "ready"
    count: Number | None = None


class User(Shape):
    """The user of a request. `name` is null where the server has no users; all may do all then.
    `now_ms` is the server's clock, so that the first page shows right ages."""

    name: str | None
    role: Literal["read", "write", "admin"]
    now_ms: int
