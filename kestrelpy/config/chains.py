"""Where items go from queue to queue (`expire_to`, `dead_letter_to`), and that they arrive.

    jobs ──dead_letter_to──▶ failed ──expire_to──▶ old        and never back to jobs

A queue without a block of its own has the defaults, the target of the defaults, too. What is put
into a queue goes on to each of its fan-out children that the file names.

One rule: a circle is refused where it is made, with every queue on it named.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kestrelpy.config.settings import Config, QueueBlock

KEYS: Final = ("expire_to", "dead_letter_to")
_FANOUT: Final = ""


class Circle(NamedTuple):
    """Queues that move items in a circle, the first one again at the end.

    `key` is the setting of the first one that leads to the second (a child comes by none).
    """

    names: tuple[str, ...]
    key: str

    @property
    def why(self) -> str:
        """What is wrong, behind the setting as it is written and "but"."""
        return f"that leads in a circle: {self.path}"

    @property
    def path(self) -> str:
        """`a -> b -> a`."""
        return " -> ".join(self.names)


def targets_of(
    config: Config, name: bytes, declared: QueueBlock | None
) -> list[tuple[str, str]]:
    """Where a queue's items go, each with the setting that says so."""
    settings = config.queue(name, declared)
    return [(key, to) for key in KEYS if (to := getattr(settings, key)) is not None]


def find_circle(
    config: Config, starts: Iterable[bytes], declared: Callable[[bytes], QueueBlock | None]
) -> Circle | None:
    """A circle that can be reached from one of these queues; None: there is none.

    `declared` is what a client declared for a queue, if that is known.
    """
    def targets(name: str) -> list[tuple[str, str]]:
        children = config.children(name.encode())
        return [
            *targets_of(config, name.encode(), declared(name.encode())),
            *((_FANOUT, f"{name}+{child.decode()}") for child in children),
        ]

    done: set[str] = set()
    for start in starts:
        # The way to where we are, each with the settings that still have to be followed.
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
                circle = names[names.index(target) :]
                if circle[1:2] and circle[1].startswith(f"{circle[0]}+"):
                    circle = [*circle[1:], circle[0]]  # it begins with a setting
                circle.append(circle[0])
                key = next(key for key, to in targets(circle[0]) if to == circle[1])
                return Circle(tuple(circle), key)
            trail[target] = targets(target)
    return None
