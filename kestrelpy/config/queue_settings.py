"""The settings of a queue: each is one line of `QueueSettings`, and the file, the environment,
`declare`, `stats q/settings`, the refusals and the policy of the core follow from that line.

    max_leased: CountOrNone = _CORE.max_leased
    key in the file     allowed values    default, that of the core's policy

`SettingRow` adds what the line cannot say otherwise. The text below the line is its text in
kestrelpy.toml, which `python -m tests.support.settings_file` makes of these lines.

One rule: a fan-out child, `[queues."orders+audit"]`, has limits of its own for its leases; each
setting of the log and of sets (`of_log`) is that of its parent.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Self, get_type_hints

import pydantic

from kestrelpy.config.keying import why_contradictory
from kestrelpy.config.kinds import (
    Bytes,
    BytesOrNone,
    Confirms,
    CountOrNone,
    Dedupe,
    ItemBytes,
    KeyFields,
    KeyFormat,
    KeyMatch,
    KeyMissing,
    Ms,
    MsOrForever,
    MsOrNone,
    MsOrZero,
    NoneWord,
    PathOrNone,
    QueueOrNone,
    Retaining,
    SyncWord,
    Times,
    Truth,
    TwoWords,
)
from kestrelpy.config.retaining import NOT_RETAINED
from kestrelpy.core import Policy

_NOT_DECLARED: Final = "cannot be declared: it is set in the server's configuration file"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """What the line of a setting says beside its name, its kind and its default."""

    key: str = ""  # in the file; empty: the attribute without its `_ms`
    of_log: bool = False  # a child has that of its parent
    operators: str = ""  # why an operator alone may choose it; empty: a client declares it as well


_LOG: Final = SettingRow(of_log=True)
_CORE: Final = Policy()


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings in force for one queue; None means no limit."""

    lease_ms: MsOrNone = _CORE.lease_ms
    """How long an open item stays lent before it goes to another client. "none": until hang-up."""
    max_items: CountOrNone = _CORE.max_items
    """The most ready and delayed items; a queue at its limit answers NOT_STORED."""
    max_bytes: BytesOrNone = _CORE.max_bytes
    """The most bytes of ready and delayed items; a queue at its limit answers NOT_STORED."""
    max_item_bytes: Annotated[ItemBytes, SettingRow("max_item_size", of_log=True)] = (
        _CORE.max_item_bytes
    )
    """A larger item is refused."""
    max_memory_bytes: Annotated[Bytes, SettingRow("max_memory")] = _CORE.max_memory_bytes
    """The most memory for this queue's bodies. Beyond it they wait on disk. A queue with durable =
    false has no disk: its limit is max_bytes.
    """
    discard_old_when_full: Truth = _CORE.discard_old_when_full
    """Whether a queue at its limit drops its oldest item, which is lost, instead of refusing the
    new one.
    """
    max_age_ms: MsOrNone = _CORE.max_age_ms
    """The longest an item may live, from being stored; it expires then."""
    max_queue_age_ms: Annotated[MsOrNone, _LOG] = _CORE.max_queue_age_ms
    """A queue is deleted that is empty, has no children and is older than this. So is a child, with
    its items, that no client has used for so long (a waiter or a lease is a use; a child with a
    block of its own stays).
    """
    sync: Annotated[SyncWord, _LOG] = "always"
    """When STORED is said: "always" after the item was synced to disk. With a duration or "never"
    it does not wait, and a power cut loses what was not synced yet (a duration: at most that long
    ago).
    """
    sync_in_turn: Annotated[
        Truth,
        SettingRow(of_log=True, operators=f"is a risk for all other queues and {_NOT_DECLARED}"),
    ] = _CORE.sync_in_turn
    """Whether a sync of this queue runs at once and not on a thread, which is faster for a single
    client. While it runs the server answers nobody: a disk that hangs stops every queue and every
    client. After a sync of 10 ms all of them run on threads for a minute.
    """
    confirms_synced: Annotated[Confirms, SettingRow("confirms")] = _CORE.confirms_synced
    """What a confirm waits for: "written" to the file (after a power cut the item may come back),
    or "synced" (it does not).
    """
    durable: Annotated[Truth, _LOG] = _CORE.durable
    """false: the queue lives in memory only and is gone after a restart. Not together with sync or
    confirms. A queue stays what it is until it is deleted.
    """
    max_leased: CountOrNone = _CORE.max_leased
    """The most items lent at once, over all consumers. 1: strictly one after the other."""
    max_attempts: CountOrNone = _CORE.max_attempts
    """Deliveries that may fail before an item becomes a dead letter. "none": it never does."""
    retry_delay_ms: MsOrZero = _CORE.retry_delay_ms
    """How long an item waits that was given back and counted (abort, a hang-up, the end of its
    lease) before it is offered again; 0ms: it is next. A client that gives it back with delay= or
    at=, or by defer, decides for itself.
    """
    retry_backoff: Times = _CORE.retry_backoff
    """Each attempt waits this many times the wait of the one before."""
    retry_delay_max_ms: Ms = _CORE.retry_delay_max_ms
    """The longest that retry_backoff makes of retry_delay."""
    key_format: Annotated[KeyFormat, _LOG] = None
    """How messages are read that have their key in their fields. While an item is lent, items with
    the same key wait and others are delivered. A producer may also name the key when it stores an
    item (set jobs/key=A,B). The five settings of keys change only while the queue is empty.
    """
    key: Annotated[KeyFields, _LOG] = None
    """The fields of a message that make its key, by name or by JSON pointer, say ["src_id",
    "/to/id"].
    """
    key_matches_any: Annotated[KeyMatch, SettingRow("key_match", of_log=True)] = False
    """Which keys are the same: "pair", the whole of both; "any", one value that both have is
    enough.
    """
    key_unordered: Annotated[Truth, _LOG] = False
    """true: A,B is the same key as B,A."""
    key_is_free: Annotated[KeyMissing, SettingRow("key_missing", of_log=True)] = False
    """A message without these fields is refused ("reject"), or has no key ("free")."""
    expire_to: QueueOrNone = None
    """The queue to which expired items go instead of ending: exactly once, whatever crashes. An
    item that such a queue refuses becomes a dead letter and is tried again. No cycle is allowed: a
    queue that is named here for all queues needs a block of its own that says "none". "none":
    expired items are gone.
    """
    dead_letter_to: QueueOrNone = None
    """The queue to which dead letters go, in the same way. "none": they stay dead letters of this
    queue.
    """
    dead_letter_age_ms: MsOrNone = _CORE.dead_letter_age_ms
    """How long a dead letter lives in the queue of dead_letter_to. "none": it does not expire
    there, whatever life it had left, unless max_age of that queue says so.
    """
    dedupe_same_body: Annotated[Dedupe, SettingRow("dedupe", of_log=True)] = (
        _CORE.dedupe_same_body
    )
    """A repeated id with another body, or another key: "id", a repetition like any other, whose
    body is not looked at; "same body", a mistake (CLIENT_ERROR). Over HTTP it is 422 either way.
    """
    dedupe_window_ms: Annotated[MsOrForever, _LOG] = _CORE.dedupe_window_ms
    """How long the id of a set is remembered (set jobs/id=4711): the same id within that time is a
    repetition, and stored once. Also how long, after the last item under a key, the queue remembers
    how many were written there (unless retain keeps them for good).
    """
    scope_window_ms: Annotated[MsOrForever, _LOG] = _CORE.scope_window_ms
    """How long a scope of ids (set jobs/id=1/scope=s1/epoch=7) is remembered, from its last use."""
    retain: Annotated[Retaining, _LOG] = NOT_RETAINED
    """How long done items stay readable for observers, by marker: a duration since an item was
    stored (an item that is not done by then stays until it is), or a size of the journal (beyond it
    the oldest done items go). "none": an item goes when it is done.
    """
    fanout_only: Annotated[Truth, _LOG] = _CORE.fanout_only
    """Fan-out: orders+audit reads all items of orders, in a line of its own. true: orders stores
    nothing for itself, its children see everything.
    """
    fanout_create: Annotated[Truth, _LOG] = _CORE.fanout_create
    """Whether the first mention of a child makes it. false: only those with a block of their own
    exist.
    """
    archive_to: Annotated[
        PathOrNone,
        SettingRow(of_log=True, operators=f"is a path on the server and {_NOT_DECLARED}"),
    ] = None
    """A directory where segment files stay when the journal is done with them: a history to look
    into with `kestrelpy journal`. Nobody but you tidies it up. It is on the same disk as data_dir
    and outside it, relative to this file; a start makes it. "none": they are used again or removed.
    """
    sliced: Annotated[
        Truth,
        SettingRow(of_log=True, operators=f"is what the router goes by and {_NOT_DECLARED}"),
    ] = False
    """Whether the queue is in all slices: an item with a key is in the slice that the key's hash
    names, any other one where its producer is. The order holds for each key, and not for the queue.
    Its limits hold in each slice. Without slices it has no effect.
    """

    def away_from(self, name: str) -> Self:
        """Return the same settings without this queue as a target."""
        expire_to = None if self.expire_to == name else self.expire_to
        dead_letter_to = None if self.dead_letter_to == name else self.dead_letter_to
        return replace(self, expire_to=expire_to, dead_letter_to=dead_letter_to)


DEFAULTS: Final = QueueSettings()
TARGETS: Final = ("expire_to", "dead_letter_to")  # those that send items to another queue


class Setting(NamedTuple):
    """One setting, as its line declares it. `words` are those for false and true, None: they are
    no words; `none` is the word for None."""

    attribute: str
    key: str
    kind: object
    of_log: bool
    operators: str
    words: tuple[str, str] | None
    none: str


def setting_of(attribute: str, key: str, kind: object, marks: Iterable[object]) -> Setting:
    """Return a setting; its kind has these marks."""
    row, words, none = SettingRow(), None, "none"
    for mark in marks:
        if isinstance(mark, SettingRow):
            row = mark
        elif isinstance(mark, TwoWords):
            words = mark
        elif isinstance(mark, NoneWord):
            none = mark.none
    return Setting(attribute, row.key or key, kind, row.of_log, row.operators, words, none)


def _settings() -> dict[str, Setting]:
    """Return the settings by attribute, in their order."""
    kinds = get_type_hints(QueueSettings, include_extras=True)
    return {
        each.name: setting_of(
            each.name, each.name.removesuffix("_ms"), kinds[each.name],
            getattr(kinds[each.name], "__metadata__", ()),
        )
        for each in fields(QueueSettings)
    }  # fmt: skip


SETTINGS: Final = _settings()
# By attribute: the settings that a child shares with its parent.
SHARED: Final = frozenset(name for name, setting in SETTINGS.items() if setting.of_log)


class Section(pydantic.BaseModel):
    """A table of the file: an unknown key is refused, and nothing changes afterwards."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


if TYPE_CHECKING:

    class _Rows(Section):
        """What mypy sees of the model that is made below: the fields that somebody names."""

        expire_to: QueueOrNone = None
        dead_letter_to: QueueOrNone = None
        retain: Retaining = NOT_RETAINED
        archive_to: PathOrNone = None

else:
    _Rows = pydantic.create_model(
        "_Rows",
        __base__=Section,
        **{
            name: (each.kind, pydantic.Field(default=getattr(DEFAULTS, name), alias=each.key))
            for name, each in SETTINGS.items()
        },
    )


class QueueBlock(_Rows):
    """`[queue_defaults]` or one `[queues."name"]`; of the latter only the set values count."""

    def over(self, base: QueueSettings) -> QueueSettings:
        """Return `base` with the set values of this block over it."""
        return replace(base, **{name: getattr(self, name) for name in self.model_fields_set})

    def refuse_contradictions(self, settings: QueueSettings, where: str) -> None:
        """Raise ValueError if this block, `where`, contradicts the `settings` in force."""
        self._refuse_disk(settings, where)
        if settings.sliced and (why := self._why_not_sliced(settings)):
            raise ValueError(f"{where} sliced = true: {why}")
        asked = {SETTINGS[name].key for name in self.model_fields_set}
        if why := why_contradictory(asked, settings):
            raise ValueError(f"{where} {why}")

    @staticmethod
    def _why_not_sliced(settings: QueueSettings) -> str:
        """Return why a queue with these settings cannot be in all slices; "": it can."""
        if not settings.durable:
            return "a sliced queue is on disk, leave out durable = false"
        if settings.key_matches_any:
            return 'items that share one value may be in two slices, leave out key_match = "any"'
        return ""

    def _refuse_disk(self, settings: QueueSettings, where: str) -> None:
        """Raise ValueError if this block, `where`, needs a disk and the queue is in memory."""
        disk = ["sync", "sync_in_turn", "confirms_synced", "archive_to"]
        if self.retain:
            disk.append("retain")
        asked = " and ".join(SETTINGS[name].key for name in disk if name in self.model_fields_set)
        if asked and not settings.durable:
            why = "a queue in memory has nothing on disk, leave one out"
            raise ValueError(f"{where} {asked} cannot be set with durable = false: {why}")


def parent_of(name: str) -> str:
    """Return the queue that a child of this name reads; empty if it is no child."""
    parent, plus, _ = name.partition("+")
    return parent if plus else ""


def why_no_child(name: str) -> str:
    """Return the mistake in the + of a name; empty if there is none."""
    parent, plus, child = name.partition("+")
    if not plus:
        return ""
    if "+" in child:
        return "a child has no children: a child's name is <queue>+<child>, with one +"
    if not parent or not child:
        return "a + names a fan-out child, <queue>+<child>, with a name on either side of it"
    return ""
