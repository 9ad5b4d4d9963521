"""Where items go from queue to queue (`expire_to`, `dead_letter_to`), and that they arrive.

    jobs ──dead_letter_to──▶ failed ──expire_to──▶ old        and never back to jobs

A queue without a block of its own has the defaults; so has the target of the defaults. An item of a
queue also goes to each of its fan-out children that the file names.

Where queues are spread over slices, those of an alias are in one.

One rule: a cycle is refused where it is made, with every queue on it named.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kestrelpy.config.queue_settings import TARGETS, QueueBlock
from kestrelpy.config.settings import Config, Place

_FANOUT: Final = ""
_ONE_GROUP: Final = "give them one group, by a {tag} in their names or in [fleet] groups"


class Cycle(NamedTuple):
    """Queues that move items in a cycle, the first one again at the end.

    `key` is the setting of the first one that leads to the second (no setting leads to a child).
    """

    names: tuple[str, ...]
    key: str

    @property
    def why(self) -> str:
        """The problem, as it follows the setting as written and "but"."""
        return f"that makes a cycle: {self.path}"

    @property
    def path(self) -> str:
        """`a -> b -> a`."""
        return " -> ".join(self.names)


def targets_of(
    config: Config, name: bytes, declared: QueueBlock | None
) -> list[tuple[str, str]]:
    """Return the targets of a queue's items, each with its setting."""
    settings = config.queue(name, declared)
    return [(key, to) for key in TARGETS if (to := getattr(settings, key)) is not None]


def find_cycle(
    config: Config, starts: Iterable[bytes], declared: Callable[[bytes], QueueBlock | None]
) -> Cycle | None:
    """Return a cycle that one of these queues can reach; None if there is none.

    `declared` returns the declared settings of a queue, if they are known.
    """
    def targets(name: str) -> list[tuple[str, str]]:
        children = config.children(name.encode())
        return [
            *targets_of(config, name.encode(), declared(name.encode())),
            *((_FANOUT, f"{name}+{child.decode()}") for child in children),
        ]

    done: set[str] = set()
    for start in starts:
        # The path so far, each queue with the settings that are still to be followed.
        trail = {(name := start.decode("ascii", "replace")): targets(name)}
        while trail:
            name, left = next(reversed(trail.items()))
            if not left or name in done:
                done.add(name)
                del trail[name]
                continue
            _, target = left.pop(0)
            if target in trail:
                names = [*trail]
                cycle = names[names.index(target) :]
                if cycle[1:2] and cycle[1].startswith(f"{cycle[0]}+"):
                    cycle = [*cycle[1:], cycle[0]]  # it begins with a setting
                cycle.append(cycle[0])
                key = next(key for key, to in targets(cycle[0]) if to == cycle[1])
                return Cycle(tuple(cycle), key)
            trail[target] = targets(target)
    return None


def why_not_in_slices(config: Config) -> tuple[Place, str] | None:
    """Return the setting, and what is wrong with it where queues are spread over slices; None: all
    is well."""
    if config.fleet.slices == 1:
        return None
    slice_of = config.placement.slice_of
    for name, alias in config.aliases.items():
        for each in alias.to:
            if config.queue(each.encode()).sliced:
                return ("aliases", name, "to"), f"{each} is sliced, and an alias is in one slice"
            if slice_of(each.encode()) != slice_of(name.encode()):
                return ("aliases", name, "to"), f"{each} is in another slice: {_ONE_GROUP}"
    return None
