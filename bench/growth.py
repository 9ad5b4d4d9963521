"""`python -m bench backlog|spark|attackers|stalls|http|disk|fleet [--quick] [--only NAMES]`: the
cost of a backlog, the speed of Spark over journals and servers, the effect of a bad client on the
others, the stall of one operation, the speed of HTTP, the cost of a sync, and that of a fleet.

One rule: a scenario that fails becomes a sentence in the report, and the others go on.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import (
    attackers,
    disk,
    fleet,
    fleet_growth,
    hung,
    loadgen,
    nats,
    pages,
    pipes,
    rabbitmq,
    stalls_http,
    stalls_queue,
    stalls_server,
    tables,
    web,
)
from bench.backlog import backlog
from bench.curve import curve
from bench.delayed import delayed
from bench.fanout import fanout
from bench.figures import Figure, as_json, markdown
from bench.handoff import handoff
from bench.keys import keys
from bench.leased import leased
from bench.loadgen import LoadFailed
from bench.observers import observers
from bench.once import once
from bench.queues import queues
from bench.scenarios import FULL, QUICK, Bench
from bench.servers import ServerFailed, file_system
from bench.stalls import stall
from bench.stuck import stuck
from bench.tokens import tokens

MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs", "devtmpfs"}

Scenario = Callable[[Bench], list[Figure]]
BACKLOG: dict[str, Scenario] = {
    "small": lambda bench: backlog(bench, 100, bench.sizes.small_items),
    "large": lambda bench: backlog(bench, 10 << 10, bench.sizes.large_items),
    "curve": curve,
    "stuck": stuck,
    "queues": queues,
    "lent": leased,
    "tokens": tokens,
    "delayed": delayed,
    "keys": keys,
    "observers": observers,
    "once": once,
    "fanout": fanout,
    "handoff": handoff,
    "hung": hung.hung,
}
SPARK: dict[str, Scenario] = {
    "read": tables.read, "live": tables.live, "audit": tables.audit, "sink": pipes.sink,
    "stream": pipes.stream, "micro": pipes.micro, "again": pipes.again, "jobs": pipes.jobs,
}  # fmt: skip
ATTACKERS: dict[str, Scenario] = {
    name: partial(attackers.beside, name=name) for name in attackers.ATTACKS
} | {"main-job": attackers.main_job}
_OPERATIONS = stalls_server.OPERATIONS | stalls_queue.OPERATIONS | stalls_http.OPERATIONS
STALLS: dict[str, Scenario] = {
    name: partial(stall, operation=operation) for name, operation in _OPERATIONS.items()
}
WEB: dict[str, Scenario] = {
    "batches": web.batches, "beside": web.beside, "scrapes": web.scrapes,
    "listings": web.listings, "start": web.start,
    "pages": pages.pages, "crowd": pages.crowd,
}  # fmt: skip
DISK: dict[str, Scenario] = {
    "many": disk.many, "slow": disk.slow, "one": disk.one, "bodies": disk.bodies,
}  # fmt: skip
FLEET: dict[str, Scenario] = {
    "sets": fleet.sets, "wide": fleet.wide, "consume": fleet.consume, "table": fleet.table,
    "nats": fleet.nats, "rabbitmq": fleet.rabbitmq, "takeover": fleet.takeover,
    "growth": fleet_growth.growth,
}  # fmt: skip
SCENARIOS = FLEET | DISK | WEB | BACKLOG | SPARK | ATTACKERS | STALLS
SETS = {
    "backlog": BACKLOG, "spark": SPARK, "attackers": ATTACKERS, "stalls": STALLS, "http": WEB,
    "disk": DISK, "fleet": FLEET,
}  # fmt: skip
TITLES = {
    "backlog": "What a backlog costs",
    "spark": "What Spark does with journals and servers",
    "attackers": "What a client notices beside a bad one",
    "stalls": "How long one operation holds up the others",
    "http": "What HTTP does, and what it costs others",
    "disk": "What a sync costs",
    "fleet": "What a fleet costs",
}


def arguments(name: str, words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="minutes; without it about an hour")
    parser.add_argument(
        "--dir", type=Path, default=loadgen.OUT, help="where data goes: on a real disk"
    )
    parser.add_argument("--python", default=sys.executable, help="what kestrelpy runs on")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {','.join(SETS[name])}")
    parser.add_argument("--minutes", type=float, help="of `growth`; default: 10, quick half a one")
    wanted = parser.parse_args(words)
    unknown = set(wanted.only.split(",") if wanted.only else ()) - set(SETS[name])
    if unknown:
        parser.error(f"--only does not know {', '.join(sorted(unknown))}")
    return wanted


def lacking(name: str) -> str | None:
    """Return a sentence about what a scenario needs and this machine lacks; None: nothing."""
    if name in SPARK:
        return tables.missing()
    if name in FLEET:
        peers = {"nats": nats.missing, "rabbitmq": rabbitmq.missing}
        return fleet.missing() or (peers[name]() if name in peers else None)
    if name in DISK:
        return disk.missing(name)
    return hung.missing() if name == "hung" else None


def measure(bench: Bench, names: Sequence[str]) -> tuple[list[Figure], list[str]]:
    """Return the figures of these scenarios, and a sentence for each that could not be measured."""
    figures: list[Figure] = []
    notes: list[str] = []
    for name in names:
        if why := lacking(name):
            notes.append(why)
            continue
        began = time.monotonic()
        try:
            figures += SCENARIOS[name](bench)
        except (ServerFailed, LoadFailed, OSError) as failure:
            notes.append(f"{name}: FAILED: {failure}")
            bench.say(notes[-1])
        bench.say(f"{name}: {time.monotonic() - began:.0f} s")
    return figures, notes


def main(set_name: str, words: Sequence[str]) -> int:
    wanted = arguments(set_name, words)

    def say(text: str) -> None:
        print(f"bench: {text}", file=sys.stderr, flush=True)

    kind = file_system(wanted.dir)
    if kind in MEMORY_FILE_SYSTEMS:
        say(f"{wanted.dir} is on {kind}, where a sync means nothing; use --dir on a disk.")
        return 1
    try:
        binary = loadgen.build()
    except LoadFailed as failure:
        say(str(failure))
        return 1
    sizes = QUICK if wanted.quick else FULL
    if wanted.minutes is not None:
        sizes = replace(sizes, growth_seconds=wanted.minutes * 60)
    wanted.dir.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="data-", dir=wanted.dir))
    began = time.monotonic()
    try:
        names = wanted.only.split(",") if wanted.only else list(SETS[set_name])
        figures, notes = measure(Bench(binary, data, wanted.python, sizes, say), names)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    about = {
        "run": f"{sizes.name}, {time.monotonic() - began:.0f} s in all, "
        f"{time.strftime('%Y-%m-%d %H:%M')}",
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"{platform.machine()}, disk {kind}",
    }
    loadgen.OUT.mkdir(parents=True, exist_ok=True)
    text = markdown(TITLES[set_name], figures, about, notes)
    (loadgen.OUT / f"{set_name}.md").write_text(text)
    as_text = json.dumps(as_json(figures, about, notes), indent=1)
    (loadgen.OUT / f"{set_name}.json").write_text(as_text + "\n")
    print(text)
    say(f"written to {loadgen.OUT / set_name}.md and .json")
    return 1 if notes else 0
