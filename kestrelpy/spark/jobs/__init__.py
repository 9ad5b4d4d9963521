"""Jobs over many servers and their journals: `kestrelpy spark <job>`, or spark-submit.

    lifecycle   one row for each item, as Parquet: its deliveries and its end
    audit       checks that no item was lost, doubled, or out of order
    report      a page with rates, depth, latencies, repeated deliveries and dead letters
    lag         how far each consumer is behind; asks servers, without Spark
    redrive     dead letters back to their queues, or to another; asks servers, without Spark
    drain       queues to Parquet by date, each item once
    backfill    Parquet, JSON, CSV or text into a queue, each row once
    copy        items of a fleet to another one, each once

      journals ──▶ `common.blocks` of `common.events` ──▶ `common.items` ──▶ `lifecycle.rows`
                                                                │
      journals ──as a start reads them──▶ `common.baseline` ────┴──▶ `audit.checks`

An import of a job needs no pyspark; a run does.

Each job is a package, because spark-submit takes a file (`__main__.py`) and puts its folder in
front of `sys.path`: in the folder of all jobs, `copy` would hide Python's module of that name.

One rule: a job may be killed and run again; its earlier work is neither lost nor done twice.
"""
