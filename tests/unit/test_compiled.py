"""Which kestrelpy this is, and which modules the compiled wheel has as libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kestrelpy import compiled
from tests.support.compiled import WHY_PURE, build_hook

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The build hook that makes the wheel."""
    pytest.importorskip("hatchling")
    return build_hook()


def test_the_kind_follows_from_the_file_that_python_took() -> None:
    assert compiled.IS_COMPILED is not compiled.__file__.endswith(".py")
    assert ("compiled" if compiled.IS_COMPILED else "pure Python") == compiled.KIND


def test_asking_for_the_kind_imports_nothing_else_of_ours() -> None:
    code = "import sys, kestrelpy.compiled; print(*(n for n in sys.modules if 'kestrelpy' in n))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in asked.stdout.split() if "__mypyc" not in name} == {
        "kestrelpy", "kestrelpy.compiled"
    }  # fmt: skip


def test_every_pattern_of_what_is_compiled_names_modules(hook: ModuleType) -> None:
    for pattern in hook.COMPILED:
        assert list(ROOT.glob(pattern)), f"{pattern} names nothing"


def test_no_face_and_no_module_that_stays_pure_is_compiled(hook: ModuleType) -> None:
    found = hook.modules(ROOT)
    assert "kestrelpy/compiled.py" in found
    assert not [name for name in found if name.endswith("__init__.py")]
    assert not {name for name in found if name in WHY_PURE}


def test_every_module_that_stays_pure_though_it_is_hot_has_its_reason() -> None:
    for name, why in WHY_PURE.items():
        assert (ROOT / name).exists() and why, name
