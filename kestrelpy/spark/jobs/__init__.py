"""Jobs over the journals of many servers, for Spark: `kestrelpy spark <job>`, or spark-submit.

    lifecycle   one row for each item, as Parquet: its deliveries and its end
    audit       checks that no item was lost, doubled, or out of order
    report      a page with rates, depth, latencies, repeated deliveries and dead letters

      journals ──▶ `common.blocks` of `common.events` ──▶ `common.items` ──▶ `lifecycle.rows`
                                                                │
      journals ──as a start reads them──▶ `common.baseline` ────┴──▶ `audit.checks`

An import of a job needs no pyspark; a run does.

One rule: a job only reads journals, and gives the same result when it is run again.
"""
