"""Hatchling's build hook of the compiled wheel: mypyc makes C of the modules on the hot path.

    the modules below ──▶ mypyc: C ──▶ a C compiler ──▶ libraries beside the sources, in the wheel

The sources are in the wheel as well: Python takes the library where there is one. An ordinary build
does not run this hook (`enable-by-default` in pyproject.toml); `make compile` does.

One rule: what is compiled is the source as it is. A module that a client's request or a record does
not pass through stays out: it costs a second of building and gains nothing.
"""

import os
from itertools import chain
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED: Final = (
    "journal/format/item_header.py",
    "journal/format/lease.py",
    "journal/format/record.py",
    "journal/format/segment.py",
    "journal/sets/id_counts.py",
    "journal/sets/id_set.py",
    "journal/write/*.py",
    "kestrelpy/compiled.py",
    "kestrelpy/core/clock.py",
    "kestrelpy/core/counters.py",
    "kestrelpy/core/fanout/child.py",
    "kestrelpy/core/index/disk_refs.py",
    "kestrelpy/core/index/expiry_watch.py",
    "kestrelpy/core/index/leases.py",
    "kestrelpy/core/index/memory_budget.py",
    "kestrelpy/core/index/ready_list.py",
    "kestrelpy/core/index/waiters.py",
    "kestrelpy/core/item.py",
    "kestrelpy/core/log/*.py",
    "kestrelpy/core/policy.py",
    "kestrelpy/core/queue/child_queue.py",
    "kestrelpy/core/queue/queue.py",
    "kestrelpy/core/queue/state.py",
    "kestrelpy/core/subscription/*.py",
    "kestrelpy/core/timers.py",
    "kestrelpy/operations/lease_end.py",
    "kestrelpy/operations/leasing.py",
    "kestrelpy/operations/rests.py",
    "kestrelpy/operations/storing.py",
    "kestrelpy/placement.py",
    "kestrelpy/protocol/conversation.py",
    "kestrelpy/protocol/login.py",
    "kestrelpy/protocol/parse/commands.py",
    "kestrelpy/protocol/parse/line_template.py",
    "kestrelpy/protocol/parse/parser.py",
    "kestrelpy/protocol/parse/requests.py",
    "kestrelpy/protocol/replies.py",
    "kestrelpy/protocol/rights.py",
    "kestrelpy/protocol/routing/answer_ends.py",
    "kestrelpy/protocol/routing/routed.py",
    "kestrelpy/protocol/routing/routed_login.py",
    "kestrelpy/protocol/routing/routed_wire.py",
    "kestrelpy/protocol/routing/routes.py",
    "kestrelpy/protocol/routing/sliced_queues.py",
    "kestrelpy/protocol/text/parser.py",
    "kestrelpy/protocol/text/requests.py",
    "kestrelpy/protocol/text/routed.py",
    "kestrelpy/protocol/verbs/delete.py",
    "kestrelpy/protocol/verbs/get.py",
    "kestrelpy/protocol/verbs/set.py",
    "kestrelpy/protocol/verbs/touch.py",
    "kestrelpy/protocol/verbs/value_line.py",
    "kestrelpy/server/commit_delay.py",
    "kestrelpy/server/connections/channels.py",
    "kestrelpy/server/connections/connection.py",
    "kestrelpy/server/shares.py",
    "kestrelpy/server/slices/connections.py",
    "kestrelpy/server/turn.py",
)
# What the compiled wheel needs beside the dependencies of the pure one: mypyc's own library.
RUNTIME: Final = ["librt>=0.8"]
# mypyc checks the types as `make lint` has done, but without the libraries that other modules use.
FLAGS: Final = ("--config-file=", "--ignore-missing-imports", "--always-true=COMPILED")


def modules(root: Path) -> list[str]:
    """Return the paths of the modules to compile; those of a package itself are its face, and hold
    imports alone."""
    found = chain.from_iterable(root.glob(pattern) for pattern in COMPILED)
    return sorted(str(path.relative_to(root)) for path in found if path.name != "__init__.py")


def libraries(
    root: Path, name: str, opt_level: str = "1", multi_file: bool = False
) -> dict[str, str]:
    """Compile; return where each library stands in the wheel, by its path.

    They are made in the folder `name` of `build/compiled`. `multi_file` makes a file of C for each
    module. Raises SystemExit or setuptools' errors if compiling is not possible here.
    """
    from mypyc.build import mypycify  # noqa: PLC0415 - there in a compiling build alone
    from setuptools import Distribution  # noqa: PLC0415

    os.chdir(root)
    place = root / "build" / "compiled"
    cache = f"--cache-dir={place / 'cache'}"
    extensions = mypycify(
        [*FLAGS, cache, *modules(root)], group_name="kestrelpy", opt_level=opt_level,
        debug_level="0", multi_file=multi_file, target_dir=str(place / f"{name}-c"),
    )  # fmt: skip
    build = Distribution({"name": "kestrelpy", "ext_modules": extensions}).get_command_obj(
        "build_ext"
    )
    build.build_lib, build.build_temp = str(place / name), str(place / f"{name}-objects")
    build.parallel = os.cpu_count()
    build.ensure_finalized()
    build.run()
    return {each: str(Path(each).relative_to(place / name)) for each in build.get_outputs()}


class CompiledHook(BuildHookInterface):
    """Compiles the modules and adds the libraries to the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; raise what `libraries` raises."""
        build_data["force_include"] |= libraries(Path(self.root), "lib")
        build_data["dependencies"] = RUNTIME
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
