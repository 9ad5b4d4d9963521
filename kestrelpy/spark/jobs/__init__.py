"""Jobs over the journals of many servers, for Spark: `kestrelpy spark <job>`, or spark-submit.

    lifecycle   what became of every item, as Parquet
    audit       was anything lost, doubled, or out of order: the books of every queue, balanced

      journals ──▶ `packed`: blocks of `events` ──▶ `items` (a row each) ──▶ `told` ──▶ lifecycle
                       │                              │
      journals ──as a start would──▶ `state` ─────────┴──▶ `judged`: `balance`, `order` ──▶ audit

Importing a job needs no pyspark; running one does.

One rule: a job only reads journals, and says the same again when it is run again.
"""
