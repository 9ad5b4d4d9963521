"""A copy of the repository whose tests run the compiled wheel, also after its sources have changed.

    copy ──▶ .ci/compile: an environment with the wheel, once
         ──▶ before each run of tests: compile what has changed since, put it into the environment

Changed modules are compiled without optimizing, one file of C for each module: with a `ccache`,
that takes 20 seconds instead of 60.

One rule: sources that are put back are compiled again, before a test runs that has to pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.faults.runs import ALL, ROOT, NotPassing, failures
from tests.support.compiled import build_hook

COMPILER: Final = "(the compiler)"
_PACKAGES: Final = ("journal", "kestrelpy", "pyspark_kestrel")


class CompiledCopy:
    """Runs tests against the wheel of `root`, a copy of the repository."""

    def __init__(self, root: Path) -> None:
        """Make the environment, in two minutes. Raise NotPassing if it cannot be made."""
        self.root = root
        self._libraries = root / "build/compiled/lean"
        (root / ".venv").symlink_to(ROOT / ".venv")  # what the tests need
        said = _ran(root, ".ci/compile", sys.executable)
        if said is not None:
            raise NotPassing(said)
        (package,) = root.glob("build/compiled/.venv/lib/python*/site-packages/kestrelpy")
        self._installed = package.parent
        self._known = self._texts()

    def failures(
        self, tests: Sequence[str], left_out: Sequence[str] = (), mark: str = ALL
    ) -> list[str]:
        """Return the first test that fails with the sources as they are now; none: all pass.

        COMPILER stands for sources that do not compile.
        """
        if not self._renew():
            return [COMPILER]
        return failures(
            self.root, tests, left_out, mark=mark, command=[".ci/test-compiled"],
            environment={"TESTS": " "},  # those that are named, instead of all
        )  # fmt: skip

    def _renew(self) -> bool:
        """Bring the environment up to the sources; False: they do not compile."""
        now = self._texts()
        changed = [path for path in now if now[path] != self._known[path]]
        if not set(changed).isdisjoint(build_hook().modules(self.root)):
            compiler = {"CC": "ccache cc"} if shutil.which("ccache") else {}
            again = (sys.executable, "-m", "tests.faults.compiled_copy")
            if _ran(self.root, *again, **compiler) is not None:
                return False
            for library in self._libraries.rglob("*.so"):
                shutil.copy2(library, self._installed / library.relative_to(self._libraries))
        for path in changed:
            shutil.copy2(self.root / path, self._installed / path)
        self._known = now
        return True

    def _texts(self) -> dict[str, str]:
        """Return the sources of the packages by their paths."""
        found = [each for name in _PACKAGES for each in (self.root / name).rglob("*.py")]
        return {each.relative_to(self.root).as_posix(): each.read_text() for each in found}


def _ran(root: Path, *command: str, **environment: str) -> str | None:
    """Run it; return what it said if it failed."""
    ran = subprocess.run(
        command, cwd=root, env=os.environ | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return None if ran.returncode == 0 else ran.stdout + ran.stderr


if __name__ == "__main__":
    build_hook().libraries(Path.cwd(), "lean", opt_level="0", multi_file=True)
