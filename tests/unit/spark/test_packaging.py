"""Where the sources come from: the wheel, a clone, an archive given to Spark, or nothing at all."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest

import kestrelpy
from kestrelpy.spark.session import what_is_missing
from tests.support.spark_fixture import ROOT
from tests.unit.spark.stand_in import Line, StandIn

pytestmark = pytest.mark.slow
PROCESS_SECONDS = 280
# Even in a session that is not ours: one line, no traceback.
REFUSAL = (
    "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: "
    "kestrelpy.spark.KestrelError: There is no option server. Did you mean servers?"
)
IN_TASK = (
    "said An exception was thrown from the Python worker: "
    "kestrelpy.spark.KestrelError: The server {} refused: not now."
)
SOURCES = (
    "pyproject.toml", "README.md", "LICENSE", "kestrelpy", "journal", "pyspark_kestrel"
)  # fmt: skip

HIDE = """
import os, sys
sys.path = [p for p in sys.path if not os.path.isdir(os.path.join(p, "kestrelpy"))]
"""
FRESH = """
import sys
from pyspark.sql import SparkSession
assert "kestrelpy" not in sys.modules
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
{register}
reader = spark.read.format("kestrel").option("servers", sys.argv[1])
rows = reader.option("queues", "jobs").load().collect()
try:
    reader.option("queues", "broken").load().collect()
except Exception as error:
    print("said", " ".join(str(error).split())[:200])
try:
    spark.read.format("kestrel").option("server", sys.argv[1]).load()
except Exception as error:
    print("said", str(error).splitlines()[0])
print("read", *sorted(row.value.decode() for row in rows))
"""


@pytest.fixture
def server() -> Iterator[StandIn]:
    line = Line()
    for body in (b"one", b"two", b"three"):
        line.put(body)
    with StandIn({"jobs": line, "broken": line}) as made:
        made.refusals["gets broken"] = b"SERVER_ERROR not now"
        yield made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the sources beside these tests."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(Path(sys.executable), "wheel", "--wheel-dir", str(folder), str(copied(folder / "source")))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with an editable install of the sources."""
    folder = tmp_path_factory.mktemp("clone")
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    made = folder / "venv" / "bin" / "python"
    # Only the dependencies come from here. A path file in a folder that a path file names is not
    # read, so an editable install that is here is not found there.
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "zz_here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip(made, "install", "--editable", str(copied(folder / "source")))
    return made


def copied(source: Path) -> Path:
    """Make a copy of the sources as links, since a build may leave files in its folder."""
    source.mkdir()
    for name in SOURCES:
        (source / name).symlink_to(ROOT / name)
    return source


def pip(interpreter: Path, *words: str) -> None:
    """Have pip build the sources. `test` installs the backend; elsewhere pip fetches it."""
    isolated = ["--no-build-isolation"] if find_spec("hatchling") else []
    subcommand, *others = words
    done = subprocess.run(
        [interpreter, "-m", "pip", subcommand, "--quiet", "--no-deps", *isolated, *others],
        capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def python(program: str, *words: str, path: str = "", cwd: Path) -> str:
    """Run a program in a fresh Python, with the packages of this one but without our sources;
    return its output."""
    return run(sys.executable, "-c", program, *words, path=path, cwd=cwd)


def run(
    *command: str, path: str = "", cwd: Path, workers: Path | str = sys.executable
) -> str:
    """Run a command; return its output. `workers` is the Python of Spark's executors."""
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
    environment["PYSPARK_PYTHON"] = str(workers)
    if path:
        environment["PYTHONPATH"] = path
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd,
        env=environment, timeout=PROCESS_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_wheel_carries_what_spark_looks_for(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert "pyspark_kestrel/__init__.py" in names
    assert "kestrelpy/spark/source.py" in names
    assert "journal/format/record.py" in names
    assert "journal/FORMAT.md" in names
    assert "kestrelpy/examples/README.md" in names
    assert "kestrelpy/py.typed" in names


def test_the_wheel_and_the_readme_have_the_version_of_the_package(wheel: Path) -> None:
    assert wheel.name == f"kestrelpy-{kestrelpy.__version__}-py3-none-any.whl"
    readme = (ROOT / "README.md").read_text()
    assert f"## Limits of version {kestrelpy.__version__}\n" in readme


def test_a_fresh_environment_finds_the_format_by_itself(
    wheel: Path, server: StandIn, tmp_path: Path
) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")

    said = python(FRESH.format(register=""), str(server.address), path=str(tmp_path / "site"),
                  cwd=tmp_path)  # fmt: skip

    in_task, at_load, read = said.splitlines()[-3:]
    assert in_task == IN_TASK.format(server.address)
    assert at_load == "said " + REFUSAL
    assert read == "read one three two"


def test_a_plain_session_of_an_editable_install_finds_the_format_by_itself(
    clone: Path, server: StandIn, tmp_path: Path
) -> None:
    said = run(
        str(clone), "-c", FRESH.format(register=""), str(server.address), cwd=tmp_path,
        workers=clone,
    )  # fmt: skip

    in_task, at_load, read = said.splitlines()[-3:]
    assert in_task == IN_TASK.format(server.address)
    assert at_load == "said " + REFUSAL
    assert read == "read one three two"


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
def test_the_format_is_registered_from_a_wheel_given_to_spark_submit(
    wheel: Path, server: StandIn, tmp_path: Path, suffix: str
) -> None:
    archive = tmp_path / f"{wheel.stem}{suffix}"
    archive.write_bytes(wheel.read_bytes())
    register = (
        "import kestrelpy.spark\n"
        f"assert '{suffix}/' in kestrelpy.spark.__file__, kestrelpy.spark.__file__\n"
        "kestrelpy.spark.register(spark)"
    )
    job = tmp_path / "job.py"
    # Shut away what may be installed here: only the wheel has the sources.
    job.write_text(HIDE + FRESH.format(register=register))
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"

    said = run(
        str(submit), "--master", "local[1]", "--driver-memory", "512m", "--conf",
        "spark.ui.enabled=false", "--py-files", str(archive), str(job), str(server.address),
        cwd=tmp_path,
    )  # fmt: skip

    in_task, at_load, read = said.splitlines()[-3:]
    assert in_task == IN_TASK.format(server.address)
    assert at_load == "said " + REFUSAL
    assert read == "read one three two"


def test_what_spark_imports_to_look_for_sources_is_light_and_never_raises(tmp_path: Path) -> None:
    for block in ((), ("pyarrow", "numpy", "pandas"), ("pyspark",), ("kestrelpy",)):
        program = (
            "import sys\n"
            f"blocked = {block!r}\n"
            "for name in blocked: sys.modules[name] = None\n"
            "import pyspark_kestrel\n"
            "heavy = {'pyarrow', 'numpy', 'pandas'} & {n for n, m in sys.modules.items() if m}\n"
            "print(hasattr(pyspark_kestrel, 'DefaultSource'), sorted(heavy))"
        )
        found = str("pyspark" not in block and "kestrelpy" not in block)

        assert python(program, path=str(ROOT), cwd=tmp_path) == f"{found} []\n"


def test_tables_can_be_imported_where_there_is_no_spark(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import kestrelpy.spark, kestrelpy.spark.session, kestrelpy.spark.options\n"
        "import kestrelpy.spark.live.partitions, kestrelpy.spark.offsets, kestrelpy.spark.schema\n"
        "print(kestrelpy.spark.session.what_is_missing())"
    )

    assert python(program, path=str(ROOT), cwd=tmp_path) == (
        "The package pyspark is not installed. Install it: pip install 'kestrelpy[spark]'\n"
    )
