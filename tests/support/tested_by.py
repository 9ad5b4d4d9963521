"""The modules that have no test file of their own name: which file tests each, and why there."""

from __future__ import annotations

from typing import Final

_RECIPES: Final = "tests/process/examples/test_recipes.py"
_RECIPE: Final = f"{_RECIPES}: one test with parameters runs every recipe"
_AUDIT: Final = "tests/unit/spark/jobs/audit/test_audit.py"
_TRANSCRIPTS: Final = "tests/scenario/test_transcripts.py"
_TRIAL: Final = "tests/process/examples/fleet/test_trial.py: as its user meets it"
_CLIENT: Final = "tests/process/client/test_client.py"

_SLICES: Final = "tests/unit/core/transfer/test_remote.py: by two slices and what is between them"
_OBJECTS: Final = "tests/unit/journal/engine/object_store/test_object_store_engine.py"

TESTED_BY: Final[dict[str, str]] = {
    "kestrelpy.core.transfer.arrivals": _SLICES,
    "kestrelpy.core.transfer.remote_transfer": _SLICES,
    "kestrelpy.operations.receiving": _SLICES,
    "kestrelpy.protocol.mail": "tests/unit/protocol/test_letters.py: what a letter carries",
    "kestrelpy.protocol.routing.mail": _SLICES,
    "journal.engine.facts": "tests/unit/cli/test_fleet.py: as an operator sees them",
    "journal.engine.object_store.bucket": f"{_OBJECTS}: as the bucket in memory has it",
    "journal.engine.object_store.made_store": f"{_OBJECTS}: each test begins with it",
    "journal.engine.object_store.members":
        "tests/process/engine/test_engine.py: members say that they are there, on any engine",
    "journal.engine.object_store.moment": f"{_OBJECTS}: beside an owner that commits",
    "journal.engine.object_store.reading": f"{_OBJECTS}: every read of an engine is one",
    "journal.engine.object_store.slice_log": f"{_OBJECTS}: owners that sleep write to it",
    "journal.engine.object_store.takeovers":
        "tests/process/engine/test_engine.py: as every engine has them",
    "journal.engine.object_store.facts":
        "tests/process/engine/test_object_store.py: on a real store",
    "journal.engine.object_store.opening":
        "tests/process/engine/test_object_store.py: on a real store",
    "journal.engine.object_store.s3": "tests/process/engine/test_object_store.py: on a real store",
    "journal.engine.postgres.postgres_engine":
        "tests/process/engine/test_postgres.py: it is tested on real servers",
    "journal.engine.postgres.connecting":
        "tests/process/fleet/test_init.py: on a real server",
    "journal.engine.postgres.facts":
        "tests/process/fleet/test_fleet.py: of two real members",
    "journal.engine.postgres.snapshot":
        "tests/process/fleet/test_doors.py: through the commands that read an engine",
    "journal.engine.postgres.tables":
        "tests/process/fleet/test_init.py: on a real server",
    "journal.engine.postgres.watched":
        "tests/process/engine/test_postgres.py: on real servers that sleep",
    "journal.format.subscription_state":
        "tests/unit/journal/snapshot/test_snapshot.py: its frames stand in snapshots alone",
    "journal.format.transfer":
        "tests/unit/core/transfer/test_transfers.py: its records say something in two logs at once",
    "journal.read.segment_read":
        "tests/unit/journal/read/test_readahead.py: a read ahead is made of these",
    "journal.tools.backup_all":
        "tests/process/cli/test_moves_in_a_backup.py: with a server whose items move meanwhile",
    "journal.snapshot.dedupe_load":
        "tests/unit/journal/snapshot/test_dedupe_file.py: reads what that module writes",
    "journal.snapshot.dedupe_merge":
        "tests/unit/journal/snapshot/test_dedupe_file.py: merges what that module writes",
    "journal.snapshot.job":
        "tests/unit/journal/compaction/test_maintenance.py: it is made and ended there",
    "kestrelpy.cli.commands":
        "tests/process/cli/test_login.py: what its options do",
    "kestrelpy.cli.dead.dead":
        "tests/process/cli/test_item.py: the dead are items to their user",
    "kestrelpy.cli.dead.commands":
        "tests/process/cli/test_moving.py: no behaviour of its own, it declares the commands",
    "kestrelpy.cli.errors":
        "tests/process/cli/test_remote.py: no behaviour of its own",
    "kestrelpy.cli.fleet.engine_moves":
        "tests/process/fleet/test_moves.py: as a user runs it, on a real server",
    "kestrelpy.server.reslice.slice_state":
        "tests/unit/server/reslice/test_reslice.py: what a run reads first",
    "kestrelpy.cli.fleet.commands":
        "tests/process/cli/test_app.py: no behaviour of its own, it declares the commands",
    "kestrelpy.fleet.folder_files":
        "tests/unit/fleet/test_move_in.py: which files of a folder are moved",
    "kestrelpy.protocol.routing.asking":
        "tests/unit/protocol/routing/test_sliced.py: in a conversation of the router",
    "kestrelpy.protocol.routing.sums":
        "tests/unit/protocol/routing/test_sliced.py: in a conversation of the router",
    "kestrelpy.protocol.routing.routed_wire":
        "tests/unit/protocol/routing/test_routed.py: in a conversation of the router",
    "kestrelpy.server.slices.slice_set":
        "tests/process/router/test_at_rest.py: with the real processes that it starts",
    "kestrelpy.fleet.unowned":
        "tests/unit/fleet/test_move_in.py: who may move, and when",
    "kestrelpy.cli.options":
        "tests/process/cli/test_remote.py: no behaviour of its own, the flags of the commands",
    "kestrelpy.cli.journals.place":
        "tests/process/fleet/test_doors.py: through each command that takes a data directory",
    "journal.engine.one_moment":
        "tests/process/fleet/test_doors.py: through each command that takes a data directory",
    "kestrelpy.cli.queues.commands":
        "tests/process/cli/test_app.py: no behaviour of its own, it declares the commands",
    "kestrelpy.client.connection": f"{_CLIENT}: a worker is tested with its connection",
    "kestrelpy.client.item": f"{_CLIENT}: an item is tested with the worker that has it",
    "kestrelpy.client.worker": f"{_CLIENT}: a worker is what the client's users see",
    "kestrelpy.config.kinds":
        "tests/unit/config/test_mistakes.py: each kind of value is tested by what it refuses",
    "kestrelpy.core.fanout.child":
        "tests/unit/core/fanout/test_children.py: a child is tested together with its queue",
    "kestrelpy.core.queue.child_queue":
        "tests/unit/core/fanout/test_children.py: a child is tested together with its queue",
    "kestrelpy.core.queue.child_start":
        "tests/unit/core/fanout/test_children.py: a beginning is seen by what the child gets",
    "kestrelpy.core.queue.due_items":
        "tests/unit/core/index/test_delayed.py: delays are tested from the put to the release",
    "kestrelpy.core.queue.fanout":
        "tests/unit/core/fanout/test_unseen.py: only the children see its notes",
    "kestrelpy.core.queue.state":
        "tests/unit/core/queue/test_queue.py: no behaviour of its own, the attributes of a queue",
    "kestrelpy.core.registry.registry":
        "tests/unit/core/registry/test_lifecycle.py: the names of queues change in their lives",
    "kestrelpy.core.replay.subscription_replay":
        "tests/unit/core/replay/test_replay.py: one of its parts",
    "kestrelpy.core.subscription.restore":
        "tests/unit/core/replay/test_replay.py: it is run at a start alone",
    "kestrelpy.core.subscription.state":
        "tests/unit/core/subscription/test_subscription.py: no behaviour but the changes of counts",
    "kestrelpy.core.transfer.in_flight":
        "tests/unit/core/transfer/test_handoff.py: a transfer is tested from end to end",
    "kestrelpy.core.transfer.steps":
        "tests/unit/core/transfer/test_transfers.py: a transfer is tested from end to end",
    **{
        f"kestrelpy.examples.{name}": _RECIPE
        for name in (
            "account", "audit", "cron", "handoff", "lock", "observer", "renewing", "reservation",
            "saga", "transfers", "webhook", "withdrawal", "workflow",
        )
    },
    "kestrelpy.examples.fleet.cluster":
        "tests/process/engine/test_postgres.py: whose servers it starts, kills and replaces",
    "kestrelpy.examples.fleet.postgres_server":
        "tests/process/engine/test_postgres.py: whose servers it starts and kills",
    "kestrelpy.examples.fresh": f"{_RECIPES}: it starts the daemon of every recipe",
    "kestrelpy.examples.trio": "tests/process/examples/test_crew.py: the crew runs it",
    **{
        f"kestrelpy.kombu.{name}":
            "tests/process/celery_broker/test_celery.py: Celery sees the transport as a whole"
        for name in ("channel", "sockets")
    },
    "kestrelpy.http.checks":
        "tests/unit/http/test_guard.py: by what strangers are answered",
    "kestrelpy.http.slices.ports":
        "tests/unit/http/slices/test_door.py: Protocols, without behaviour of their own",
    "kestrelpy.http.ports":
        "tests/unit/http/test_call.py: Protocols, without behaviour of their own",
    "kestrelpy.operations.children":
        "tests/unit/protocol/test_beginning.py: the first mention of a child, by what clients say",
    "kestrelpy.operations.item_life":
        "tests/unit/http/admin/test_item.py: a life in real journals, read by a client",
    "kestrelpy.operations.leasing":
        "tests/unit/protocol/verbs/test_get.py: leases, by what clients say",
    "kestrelpy.operations.storing":
        f"{_TRANSCRIPTS}: each condition of a set, in storing.txt, once.txt and others",
    "kestrelpy.operations.lists.connections":
        "tests/unit/http/admin/test_server.py: no behaviour of its own, the facts of connections",
    "kestrelpy.operations.ports":
        "tests/unit/operations/test_queue_admin.py: Protocols, without behaviour of their own",
    "kestrelpy.operations.streams":
        "tests/unit/http/test_streams.py: versions, by what clients of both wires see",
    "kestrelpy.operations.rests":
        "tests/unit/protocol/test_replies.py: replies wait for what they rest on",
    "kestrelpy.protocol.parse.requests":
        "tests/unit/protocol/parse/test_parser.py: no behaviour of its own",
    "kestrelpy.protocol.ports":
        "tests/unit/protocol/test_conversation.py: no behaviour of its own, Protocols",
    "kestrelpy.protocol.room":
        "tests/unit/server/connections/test_memory.py: the memory it waits for is the server's",
    "kestrelpy.operations.displaced_read":
        "tests/unit/core/fanout/test_retained_children.py: children have such markers",
    "kestrelpy.protocol.verbs.children":
        "tests/unit/protocol/test_beginning.py: the verbs of children, by what clients say",
    "kestrelpy.protocol.verbs.move":
        "tests/unit/core/transfer/test_transfers.py: a transfer is tested from the request on",
    "kestrelpy.protocol.verbs.touch":
        f"{_TRANSCRIPTS}: leases that are renewed, in tokens.txt and others",
    "kestrelpy.protocol.steps":
        "tests/unit/protocol/test_conversation.py: no behaviour of its own, a name and an idiom",
    "kestrelpy.protocol.verbs.streams":
        f"{_TRANSCRIPTS}: keys and their versions, in once.txt",
    "kestrelpy.server.directory.removed":
        "tests/unit/server/test_queue_deletion.py: no behaviour of its own",
    "kestrelpy.server.schedules":
        f"{_TRANSCRIPTS}: the core decides, a server only asks it; in schedules.txt",
    "kestrelpy.spark.jobs.audit.checks":
        "tests/unit/spark/jobs/common/test_items.py: it checks the items of blocks",
    "kestrelpy.spark.jobs.audit.dedupe":
        "tests/unit/spark/jobs/audit/test_audit_rules.py: a rule is tested by its audit",
    "kestrelpy.spark.jobs.audit.findings": f"{_AUDIT}: the text of an audit is tested with it",
    "kestrelpy.spark.jobs.audit.lsn_gaps": f"{_AUDIT}: a rule is tested by its audit",
    "kestrelpy.spark.jobs.audit.order": f"{_AUDIT}: a rule is tested by its audit",
    "kestrelpy.spark.jobs.common.baseline": f"{_AUDIT}: an audit begins with it",
    "kestrelpy.spark.jobs.common.blocks":
        "tests/unit/spark/jobs/common/test_items.py: blocks are the items' packed form",
    "kestrelpy.spark.jobs.common.events":
        "tests/unit/spark/jobs/common/test_items.py: events are what items are made of",
    "kestrelpy.spark.jobs.lifecycle.rows":
        "tests/unit/spark/jobs/lifecycle/test_lifecycle.py: the rows are the job's result",
    "kestrelpy.spark.jobs.report.tables":
        "tests/unit/spark/jobs/report/test_metrics.py: the metrics are made of these rows",
}
