"""Options: what may be said, and what is said of the rest."""

from __future__ import annotations

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import Address, FleetAddress
from kestrelpy.spark.options import NAMES, parse_options

FLEET = "postgresql://k:sekret@db/kestrel"


def refusal(**options: str) -> str:
    with pytest.raises(KestrelError) as caught:
        parse_options(options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_servers_and_queues_are_lists_with_commas() -> None:
    options = parse_options(
        {"servers": "a:22133, [::1]:5,/run/k.sock,a:22133", "queues": "jobs, l*"}
    )

    assert options.servers == (Address("a", 22133), Address("::1", 5), Address("/run/k.sock"))
    assert [str(each) for each in options.servers] == ["a:22133", "[::1]:5", "/run/k.sock"]
    assert options.queues == ("jobs", "l*")
    assert options.live


def test_names_count_in_any_case() -> None:
    options = parse_options({"PATH": "/data", "minpartitions": "7", "FailOnDataLoss": "FALSE"})

    assert options.path == ("/data",)
    assert options.min_partitions == 7
    assert not options.fail_on_data_loss
    assert not options.live


def test_an_option_that_is_not_given_has_a_default() -> None:
    options = parse_options({"path": "/data"})

    assert options.mode == "items"
    assert options.queues == ("*",)
    assert options.max_partition_bytes == 128 << 20
    assert options.min_partitions == 1
    assert options.fail_on_data_loss
    assert not options.skip_unreachable
    assert not options.pushdown
    assert options.starting_markers.of(("a:1",), "q") == "earliest"
    assert options.ending_markers.of(("a:1",), "q") == "latest"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("/var/lib/*/data", ("/var/lib/*/data",)),
        ('["/a", "/b/[xy]*"]', ("/a", "/b/[xy]*")),
        ("/a,b", ("/a,b",)),
        ("[ab]*/data", ("[ab]*/data",)),
        ("[1]", ("[1]",)),
        ("file:///srv/data", ("/srv/data",)),
        ("file:/srv/data", ("/srv/data",)),
        ("rel/ative", ("rel/ative",)),
    ],
)
def test_a_path_is_a_glob_or_a_list_of_them_in_json(said: str, meant: tuple[str, ...]) -> None:
    assert parse_options({"path": said}).path == meant


def test_load_with_several_paths_reads_all_of_them() -> None:
    assert parse_options({"paths": '["/a","/b"]'}).path == ("/a", "/b")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("128m", 128 << 20),
        ("128MiB", 128 << 20),
        ("1g", 1 << 30),
        ("64KB", 64 << 10),
        ("1000", 1000),
        ("5b", 5),
    ],
)
def test_sizes_are_written_as_in_spark_or_as_in_the_daemon(said: str, meant: int) -> None:
    assert parse_options({"path": "/a", "maxPartitionBytes": said}).max_partition_bytes == meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14 22:13:20.123", 1_700_000_000_123),
        ("2023-11-14T17:13:20.123-05:00", 1_700_000_000_123),
        ("1970-01-02", 86_400_000),
    ],
)
def test_a_time_without_a_zone_is_utc(said: str, meant: int) -> None:
    assert parse_options({"path": "/a", "startingTimestamp": said}).starting_timestamp_ms == meant


def test_timeouts_and_retries_are_durations_and_counts() -> None:
    options = parse_options(
        {
            "servers": "a:1",
            "connectTimeout": "250ms",
            "readTimeout": "2m",
            "fetchRetries": "0",
            "fetchRetryInterval": "1s",
        }
    )

    assert options.connect_timeout_ms == 250
    assert options.read_timeout_ms == 120_000
    assert options.fetch_retries == 0
    assert options.fetch_retry_interval_ms == 1000


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_near_to_itself_with_a_letter_too_many(name: str) -> None:
    said = refusal(path="/a", **{f"{name}x": "1"})

    assert said.startswith(f"There is no option {name}x. Did you mean ")


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    assert refusal(server="a:1") == "There is no option server. Did you mean servers?"
    assert refusal(failOnDataLos="true") == (
        "There is no option failOnDataLos. Did you mean failOnDataLoss?"
    )


def test_an_option_like_none_is_refused_with_all_there_are() -> None:
    said = refusal(path="/a", zzz="1")

    assert said.startswith("There is no option zzz. There are: servers, fleet, queues, path, ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "There is nothing to read. Say .option('servers', 'host:22133')"),
        ({"servers": "a:1", "path": "/a"}, "Options servers and path contradict each other."),
        ({"servers": "a:1", "fleet": FLEET}, "Options fleet and servers contradict each other"),
        ({"path": "/a", "fleet": FLEET}, "Options fleet and path contradict each other."),
        ({"fleet": FLEET, "mode": "events"}, "Options fleet and mode=events contradict"),
        ({"fleet": f"{FLEET}/3"}, "Option fleet: postgresql://k@db/kestrel/3 is one slice; leave"),
        ({"fleet": "db:5432"}, 'Option fleet: "db:5432" is no engine; say its address as in'),
        ({"servers": "a:1", "mode": "events"}, "Options servers and mode=events contradict"),
        ({"path": "/a", "readTimeout": "1s"}, "Option readTimeout goes only with servers or"),
        ({"path": "/a", "skipUnreachable": "true"}, "Option skipUnreachable goes only with"),
        ({"servers": "a"}, 'Option servers: "a" is not a server\'s address; say host:port'),
        ({"servers": "a:99999"}, 'Option servers: "a:99999" is not a server\'s address'),
        ({"servers": " , "}, "Option servers: it names no server; say host:port"),
        ({"servers": "a:1", "queues": ","}, "Option queues: it names no queue"),
        ({"path": ""}, "Option path: it is empty; say the folder"),
        ({"path": "hdfs://b/x"}, 'Option path: "hdfs://b/x" is not a folder that every executor'),
        ({"path": "/a", "mode": "rows"}, 'Option mode: "rows" is not a mode; say items or events'),
        ({"path": "/a", "minPartitions": "0"}, "Option minPartitions: 0 is too few"),
        ({"path": "/a", "minPartitions": "two"}, 'Option minPartitions: "two" is not a whole'),
        ({"path": "/a", "maxPartitionBytes": "1 day"}, 'Option maxPartitionBytes: "1 day" is not'),
        ({"path": "/a", "maxPartitionBytes": "0"}, 'Option maxPartitionBytes: "0" is out of'),
        ({"path": "/a", "failOnDataLoss": "yes"}, 'Option failOnDataLoss: "yes" is neither true'),
        ({"path": "/a", "startingTimestamp": "noon"}, 'Option startingTimestamp: "noon" is not a'),
        ({"servers": "a:1", "readTimeout": "5"}, 'Option readTimeout: "5" is not a duration'),
        ({"servers": "a:1", "readTimeout": "0s"}, 'Option readTimeout: "0s" is no time at all'),
        ({"servers": "a:1", "startingMarkers": "7"}, 'Option startingMarkers: "7" is not a place'),
        (
            {"servers": "a:1", "startingMarkers": '{"a:1": {"q": -2}}'},
            "Option startingMarkers: the marker -2 of a:1 q is none; say earliest, latest, or",
        ),
        (
            {"path": "/a", "startingTimestamp": "2025-01-02", "endingTimestamp": "2025-01-01"},
            "Option endingTimestamp is before startingTimestamp.",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(
    options: dict[str, str], said: str
) -> None:
    assert refusal(**options).startswith(said)


def test_options_of_streams_are_parsed_and_refused_for_reads() -> None:
    servers = {"servers": "a:1"}
    options = parse_options(
        {**servers, "maxItemsPerTrigger": "7", "maxBytesPerTrigger": "1m", "cursor": "c"},
        streams=True,
    )
    assert (options.max_items_per_trigger, options.max_bytes_per_trigger) == (7, 1 << 20)
    assert (options.cursor, options.consume) == ("c", "confirm")
    assert parse_options(servers, streams=True).consume == "none"
    for given, streams in (({"cursor": "c"}, False), ({"endingMarkers": "latest"}, True)):
        with pytest.raises(KestrelError, match=r"alone\. Leave it out"):
            parse_options({**servers, **given}, streams=streams)


def test_a_stream_that_consumes_a_queue_skips_nothing_of_it() -> None:
    given = {"servers": "a:1", "consume": "confirm", "startingMarkers": "latest"}
    with pytest.raises(KestrelError, match="consume=confirm and startingMarkers contradict"):
        parse_options(given, streams=True)
    assert parse_options({**given, "cursor": "c"}, streams=True).consume == "confirm"


def test_the_notes_of_the_sink_are_read_only_by_their_name() -> None:
    for queues, chosen in (("*", False), ("kestrelpy.*", False), ("kestrelpy.sinks", True)):
        options = parse_options({"servers": "a:1", "queues": queues})
        assert options.chooses("kestrelpy.sinks") is chosen


def test_a_fleet_is_one_server_which_is_asked_for_longer() -> None:
    options = parse_options({"fleet": FLEET, "user": "anna", "password": "secret"})

    assert options.servers == (FleetAddress.of(FLEET),)
    assert options.live
    assert options.fetch_retries > parse_options({"servers": "a:1"}).fetch_retries
    assert options.access.user == "anna"
    assert [str(each.part(3)) for each in options.servers if isinstance(each, FleetAddress)] == [
        "postgresql://k@db/kestrel/3"
    ]


def test_no_text_of_the_options_has_the_secret_of_an_engine() -> None:
    for options in (parse_options({"fleet": FLEET}), parse_options({"path": FLEET})):
        assert "sekret" not in f"{options} {options.servers}"
    for given in ({"fleet": f"{FLEET}/x"}, {"path": f"{FLEET}/x"}, {"fleet": "mysql://k:sekret@d"}):
        with pytest.raises(KestrelError) as refused:
            parse_options(given)
        assert "sekret" not in str(refused.value)
