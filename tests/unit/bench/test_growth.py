"""The bench of a backlog: every scenario runs, and a goal is compared the right way round."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench import loadgen
from bench.daemon import Daemon
from bench.figures import Figure, as_json, markdown, shown
from bench.growth import SCENARIOS, SETS, lacking, measure
from bench.loadgen import Load, LoadFailed
from bench.scenarios import TINY, Bench
from bench.servers import ServerFailed


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loadgen.build(tmp_path_factory.mktemp("out"))


# One of each kind; the others run in `make sweep`.
OFTEN = ("small", "handoff", "read", "unread-sets-x4", "reload")
NAMES = [
    pytest.param(name, marks=() if name in OFTEN else pytest.mark.sweep) for name in SCENARIOS
]


def test_no_two_scenarios_have_one_name() -> None:
    assert len(SCENARIOS) == sum(map(len, SETS.values()))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_finds_figures(name: str, binary: Path, tmp_path: Path) -> None:
    if why := lacking(name):
        pytest.skip(why)
    said: list[str] = []

    figures, notes = measure(Bench(binary, tmp_path, sys.executable, TINY, said.append), [name])

    assert notes == []
    assert figures
    assert said
    assert len({(each.scenario, each.name) for each in figures}) == len(figures)
    assert list(tmp_path.iterdir()) == [], "the data is removed"


def test_a_scenario_that_fails_is_a_note_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(bench: Bench) -> list[Figure]:
        raise LoadFailed("the server answered nonsense")

    monkeypatch.setitem(SCENARIOS, "small", fails)
    monkeypatch.setitem(SCENARIOS, "large", lambda bench: [Figure("large", "all", 1.0)])
    bench = Bench(tmp_path, tmp_path, sys.executable, TINY, lambda text: None)

    figures, notes = measure(bench, ["small", "large"])

    assert notes == ["small: FAILED: the server answered nonsense"]
    assert [each.scenario for each in figures] == ["large"]


def test_what_is_given_back_is_counted_and_stays_in_the_queue(
    binary: Path, tmp_path: Path
) -> None:
    with Daemon(tmp_path, sys.executable) as daemon:
        load = Load("memcache-set", daemon.port, connections=5, ops=50)
        loadgen.run(binary, load)
        found = loadgen.run(binary, Load("memcache-return", daemon.port, connections=5, ops=203))
        line = daemon.connect()
        facts = line.stats(b"bench")
        line.close()

    assert (found.ops, found.requests, found.empty) == (203, 406, 0)
    # An item that they all took in turn has died of its attempts.
    assert int(facts["items"]) + int(facts["dead"]) == 50
    assert facts["leased"] == "0"


def test_a_daemon_is_looked_at_and_found_again_after_a_kill(tmp_path: Path) -> None:
    with Daemon(tmp_path, sys.executable) as daemon:
        line = daemon.connect()
        assert line.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED"
        line.close()
        assert daemon.disk_bytes() >= daemon.largest_segment_bytes() > 0
        assert daemon.memory_bytes("VmHWM") >= daemon.memory_bytes() > 0
        assert daemon.open_files() > 3
        daemon.kill()
        assert daemon.start() > 0
        line = daemon.connect()
        assert line.ask(b"get jobs\r\n") == b"VALUE jobs 0 1"
        line.close()
        daemon.stop()
    assert not daemon.place.exists()


def test_a_daemon_that_does_not_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="is not a known key"):
        Daemon(tmp_path, sys.executable, "prot = 1").__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("figure", "goal", "reached"),
    [
        (Figure("s", "n", 5, "MiB", at_most=5), "≤ 5.00 MiB", True),
        (Figure("s", "n", 5.1, at_most=5), "≤ 5.00", False),
        (Figure("s", "n", 0.9, at_least=0.9), "≥ 0.90", True),
        (Figure("s", "n", 0.89, at_least=0.9), "≥ 0.90", False),
        (Figure("s", "n", 1), "", None),
    ],
)
def test_a_figure_reaches_its_goal_or_not(figure: Figure, goal: str, reached: bool | None) -> None:
    assert (figure.goal, figure.reached) == (goal, reached)


def test_the_report_states_what_failed_and_what_was_left_out() -> None:
    figures = [
        Figure("a", "memory", 12345.6, "MiB", at_most=96),
        Figure("a", "rate", 1.25, at_least=1),
        Figure("a", "only told", 3.0),
    ]

    text = markdown("What it costs", figures, {"run": "quick"}, ["strace is not installed."])

    assert "| a | memory | 12,346 MiB | ≤ 96.0 MiB | **NO** |" in text
    assert "| a | rate | 1.25 | ≥ 1.00 | yes |" in text
    assert "| a | only told | 3.00 |  |  |" in text
    assert "Goals: 1 reached, 1 NOT reached." in text
    assert "- **Note**: strace is not installed." in text
    assert as_json(figures, {}, [])["figures"] != []
    assert [shown(each) for each in (1234, 12.34, 1.234)] == ["1,234", "12.3", "1.23"]
