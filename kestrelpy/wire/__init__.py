"""The client's side of the memcache wire: a connection to a daemon, and its answers.

    dial       a socket to a daemon, with TLS and a login
    keepalive  how a connection to a machine that is gone comes to an end
    answers    bytes to answers, without I/O
    refusals   the server's "no", as an exception
    names      what may be the name of a queue

    connection, async_connection       a request and its answer, blocking and for asyncio

Workers, Celery, Spark and the command line stand on it, and add what each needs.

One rule: each module is a face by itself, so that a task of Spark loads no asyncio.
"""
