"""The settings of a queue: each is one line of `QueueSettings`, and the file, the environment,
`declare`, `stats q/settings`, the refusals and the policy of the core follow from that line.

    max_leased: CountOrNone = _CORE.max_leased
    key in the file     allowed values    default, that of the core's policy

`SettingRow` adds what the line cannot say otherwise. kestrelpy.toml explains each setting.

One rule: a fan-out child, `[queues."orders+audit"]`, has limits of its own for its leases; each
setting of the log and of sets (`of_log`) is that of its parent.
"""

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
    max_items: CountOrNone = _CORE.max_items
    max_bytes: BytesOrNone = _CORE.max_bytes
    max_item_bytes: Annotated[ItemBytes, SettingRow("max_item_size", of_log=True)] = (
        _CORE.max_item_bytes
    )
    max_memory_bytes: Annotated[Bytes, SettingRow("max_memory")] = _CORE.max_memory_bytes
    discard_old_when_full: Truth = _CORE.discard_old_when_full
    max_age_ms: MsOrNone = _CORE.max_age_ms
    max_queue_age_ms: Annotated[MsOrNone, _LOG] = _CORE.max_queue_age_ms
    sync: Annotated[SyncWord, _LOG] = "always"
    sync_in_turn: Annotated[
        Truth,
        SettingRow(of_log=True, operators=f"is a risk for all other queues and {_NOT_DECLARED}"),
    ] = _CORE.sync_in_turn
    confirms_synced: Annotated[Confirms, SettingRow("confirms")] = _CORE.confirms_synced
    durable: Annotated[Truth, _LOG] = _CORE.durable
    max_leased: CountOrNone = _CORE.max_leased
    max_attempts: CountOrNone = _CORE.max_attempts
    retry_delay_ms: MsOrZero = _CORE.retry_delay_ms
    retry_backoff: Times = _CORE.retry_backoff
    retry_delay_max_ms: Ms = _CORE.retry_delay_max_ms
    key_format: Annotated[KeyFormat, _LOG] = None
    key: Annotated[KeyFields, _LOG] = None
    key_matches_any: Annotated[KeyMatch, SettingRow("key_match", of_log=True)] = False
    key_unordered: Annotated[Truth, _LOG] = False
    key_is_free: Annotated[KeyMissing, SettingRow("key_missing", of_log=True)] = False
    expire_to: QueueOrNone = None
    dead_letter_to: QueueOrNone = None
    dead_letter_age_ms: MsOrNone = _CORE.dead_letter_age_ms
    dedupe_same_body: Annotated[Dedupe, SettingRow("dedupe", of_log=True)] = (
        _CORE.dedupe_same_body
    )
    dedupe_window_ms: Annotated[MsOrForever, _LOG] = _CORE.dedupe_window_ms
    scope_window_ms: Annotated[MsOrForever, _LOG] = _CORE.scope_window_ms
    retain: Annotated[Retaining, _LOG] = NOT_RETAINED
    fanout_only: Annotated[Truth, _LOG] = _CORE.fanout_only
    fanout_create: Annotated[Truth, _LOG] = _CORE.fanout_create
    archive_to: Annotated[
        PathOrNone,
        SettingRow(of_log=True, operators=f"is a path on the server and {_NOT_DECLARED}"),
    ] = None

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


def _settings() -> dict[str, Setting]:
    """Return the settings by attribute, in their order."""
    kinds, found = get_type_hints(QueueSettings, include_extras=True), dict[str, Setting]()
    for name in (field.name for field in fields(QueueSettings)):
        row, words, none = SettingRow(), None, "none"
        for mark in getattr(kinds[name], "__metadata__", ()):
            if isinstance(mark, SettingRow):
                row = mark
            elif isinstance(mark, TwoWords):
                words = mark
            elif isinstance(mark, NoneWord):
                none = mark.none
        key = row.key or name.removesuffix("_ms")
        found[name] = Setting(name, key, kinds[name], row.of_log, row.operators, words, none)
    return found


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
        asked = {SETTINGS[name].key for name in self.model_fields_set}
        if why := why_contradictory(asked, settings):
            raise ValueError(f"{where} {why}")

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
