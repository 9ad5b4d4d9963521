"""The list of client libraries: how each one differs, and what its users set.

One rule: an entry says what a run has shown; the tests compare the two, and docs/clients.md has a
row for each entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tests.process.clients import programs
from tests.process.clients.programs import Program
from tests.process.clients.steps import CASES

ERRORS: Final = ("CLIENT_ERROR", "SERVER_ERROR")
VALUES: Final = ("text", "number", "list", "long")
WORKS: Final = "works"
REFUSED: Final = "refused by the library"
NONE: Final = "no call for it"

RAISES: Final = "raises, goes on"
RAISES_HANGS_UP: Final = "raises, hangs up"
RAISES_DOWN: Final = "raises, holds the server for down"
HIDES: Final = "answers none, goes on"
HIDES_HANGS_UP: Final = "answers none, hangs up"


@dataclass(frozen=True)
class Library:
    """A client library. `results` has what differs from `works`, the errors and the values."""

    name: str
    program: Program
    set_up: str
    client_error: str = ""
    server_error: str = ""
    text: str = ""
    number: str = ""
    list: str = ""
    long: str = ""
    differs: dict[str, str] = field(default_factory=dict)
    daemons: int = 1
    # The whole cell for a case without steps: a test of its own shows it.
    instead: str = ""

    def expected(self, case: str) -> str:
        """Return the expected result of a case, an error or a value."""
        named = {
            "CLIENT_ERROR": self.client_error, "SERVER_ERROR": self.server_error,
            "text": self.text, "number": self.number, "list": self.list, "long": self.long,
        }  # fmt: skip
        return named[case] if case in named else self.differs.get(case, WORKS)

    def cases(self) -> list[str]:
        """Return the cases that this library runs."""
        return [] if self.instead else [*CASES, *ERRORS, *VALUES]


BINARY: Final = "no: it speaks only the binary protocol, which the daemon refuses"
_PYTHON_VALUES: Final[dict[str, str]] = {
    "text": REFUSED, "number": "digits, flags 0", "list": "Python's `str()`, flags 0",
    "long": "as it is, flags 0",
}  # fmt: skip
_BYTES_ONLY: Final = dict.fromkeys(VALUES, REFUSED)
_PERL_VALUES: Final[dict[str, str]] = {
    "text": "as it is, flags 0", "number": "digits, flags 0", "list": "Storable, flags 1",
    "long": "as it is, flags 0",
}  # fmt: skip
_NO_VALUES: Final = dict.fromkeys(VALUES, NONE)
_NO_GETS: Final = {"token": "no gets", "cas": "no gets"}

LIBRARIES: Final = (
    Library(
        "Python pymemcache `Client`", programs.python("pymemcache", "pymemcache"),
        "`default_noreply=False`, `timeout` longer than `t=`; `encoding=\"utf-8\"` for text",
        RAISES_HANGS_UP, RAISES_HANGS_UP, **_PYTHON_VALUES,
    ),
    Library(
        "Python pymemcache `PooledClient`", programs.python("pymemcache", "pymemcache-pooled"),
        "as `Client`; `max_pool_size=1` and one object per worker, or leases by token",
        RAISES_HANGS_UP, RAISES_HANGS_UP, **_PYTHON_VALUES,
    ),
    Library(
        "Python pymemcache `HashClient`", programs.python("pymemcache", "pymemcache-hash"),
        "as `Client`; `hasher=kestrelpy.client.QueueHasher`",
        RAISES_HANGS_UP, RAISES_HANGS_UP, **_PYTHON_VALUES, daemons=2,
    ),
    Library(
        "Python python-memcached", programs.python("python-memcached", "python-memcached"),
        "`socket_timeout` longer than `t=` (3 s); `cache_cas=True`: `gets` leaves the number in "
        "`client.cas_ids`",
        HIDES, HIDES,
        "as it is, flags 16", "digits, flags 2", "pickle, flags 1", "as it is, flags 16",
    ),
    Library(
        "Python pylibmc", programs.python("pylibmc", "pylibmc"),
        "`behaviors={\"cas\": True, \"receive_timeout\": 30_000_000, \"retry_timeout\": 1}`: "
        "microseconds, longer than `t=`, and seconds",
        RAISES, RAISES_DOWN,
        "as it is, flags 16", "digits, flags 4", "pickle, flags 1", "as it is, flags 16",
    ),
    Library(
        "Python aiomcache", programs.python("aiomcache", "aiomcache"),
        "`pool_size=1`, or leases by token; **never cancel its calls** (`asyncio.wait_for`, "
        "`asyncio.timeout`): the next call then reads the answer of the cancelled one, so give up "
        "by `t=`, or make a new client",
        RAISES_HANGS_UP, RAISES_HANGS_UP, **_BYTES_ONLY,
    ),
    Library(
        "Python emcache", programs.python("emcache", "emcache"),
        "`timeout` longer than `t=` (1 s); it waits as long after a `SERVER_ERROR`; "
        "`min_connections=1, max_connections=1`, or leases by token",
        RAISES, RAISES_HANGS_UP, **_BYTES_ONLY,
    ),
    Library(
        "PHP memcached", programs.php(),
        "`OPT_POLL_TIMEOUT` longer than `t=` (milliseconds), `OPT_COMPRESSION` false; "
        "`getLastErrorMessage()` has the refusal",
        HIDES, HIDES_HANGS_UP,
        "as it is, flags 0", "digits, flags 1", "PHP's `serialize()`, flags 4", "FastLZ, flags 80",
    ),
    Library(
        "Perl Cache::Memcached", programs.perl("Cache::Memcached", "libcache-memcached-perl"),
        "`select_timeout` longer than `t=` (1 s); it waits as long after each error",
        HIDES_HANGS_UP, HIDES_HANGS_UP, **_PERL_VALUES, differs=_NO_GETS,
    ),
    Library(
        "Perl Cache::Memcached::Fast",
        programs.perl("Cache::Memcached::Fast", "libcache-memcached-fast-perl"),
        "`io_timeout` longer than `t=` (1 s)",
        HIDES_HANGS_UP, HIDES_HANGS_UP, **_PERL_VALUES,
    ),
    Library(
        "Perl Cache::Memcached::libmemcached",
        programs.perl("Cache::Memcached::libmemcached", "libcache-memcached-libmemcached-perl"),
        "`behavior_poll_timeout` longer than `t=` (milliseconds)",
        HIDES, HIDES_HANGS_UP, **_PERL_VALUES, differs=_NO_GETS,
    ),
    Library(
        "Ruby dalli", programs.ruby(),
        "dalli 3.2 or newer with `protocol: :meta` speaks the meta commands", instead=BINARY,
    ),
    Library(
        "Node memcached", programs.node("memcached"),
        "`poolSize: 1`, `timeout` longer than `t=` (5 s), `idle` longer than any work (5 s), "
        "`failures: 1e9`, `retry: 0`; `NOT_STORED` is an error",
        RAISES, HIDES_HANGS_UP,
        "as it is, flags 0", "digits, flags 8", "JSON, flags 2", "as it is, flags 0",
    ),
    Library("Node memjs", programs.node("memjs"), "use `memcached`", instead=BINARY),
    Library(
        "Go gomemcache", programs.go(),
        "`Timeout` longer than `t=` (100 ms), one client per worker",
        RAISES_HANGS_UP, RAISES_HANGS_UP,
        "as it is, flags 0", NONE, NONE, "as it is, flags 0", differs={"token": "no number"},
    ),
    Library(
        "Java spymemcached", programs.java(),
        "`setShouldOptimize(false)`, `setOpTimeout` longer than `t=`; one client per worker",
        RAISES_HANGS_UP, RAISES_HANGS_UP,
        "as it is, flags 0", "big-endian bytes, flags 512", "Java serialization, flags 1",
        "gzip, flags 2",
    ),
    Library(
        "libmemcached-tools", programs.tools(), "no `--binary`; a file's name is the queue's name",
        instead="`memcp` `memcat` `memcrm` `memcping` `memcstat`",
    ),
    Library("bash `/dev/tcp`", programs.bash(), "nothing", RAISES, RAISES, **_NO_VALUES),
    Library("nc", programs.nc(), "nothing", RAISES, RAISES, **_NO_VALUES),
)  # fmt: skip
