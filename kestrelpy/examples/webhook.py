"""Webhooks: each call is tried until the receiver answers, with growing delays.

    python -m kestrelpy.examples.webhook [--server HOST:PORT]

    hook.calls ──POST──▶ 2xx ─────────────────────▶ confirm
                    ├──▶ 503 with Retry-After: 1 ─▶ abort/delay=1s: as it says
                    ├──▶ 5xx, or no answer ───────▶ abort: after 100 ms, 200 ms, 400 ms ...
                    │      the fifth time ────────▶ a dead letter
                    └──▶ 4xx ─────────────────────▶ abort/dead: a dead letter, at once

A receiver that is down does not delay the others: calls that wait for their next attempt are not in
the ready list.

If a worker dies after the answer and before its confirm, the call is delivered again. So each call
has a number in its header, by which the receiver can recognize it.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

from pymemcache.client.base import PooledClient

from kestrelpy.examples import fresh

QUEUE = "hook.calls"
RETRIES = """
max_attempts = 5
retry_delay = "100ms"
retry_backoff = 2
"""
# The answers of each receiver; the last one is repeated.
ANSWERS = {"/shop": [200], "/slow": [503, 200], "/weak": [500, 500, 200], "/down": [500],
           "/gone": [410]}  # fmt: skip
LEASE = "4s"
ANSWER_SECONDS = 3.0  # less than the lease: otherwise two workers would wait for one answer
DELIVERERS = 3
DIES = "/shop"  # the worker that delivers this call first dies before the confirm

asked: Counter[str] = Counter()  # how often, by path
delivered: Counter[str] = Counter()  # how often, by the call's number


class Receiver(BaseHTTPRequestHandler):
    """A receiver of calls."""

    def do_POST(self) -> None:
        """Give the planned answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        plan = ANSWERS[self.path]
        code = plan[min(asked[self.path], len(plan) - 1)]
        asked[self.path] += 1
        if code == 200:
            delivered[self.headers["Idempotency-Key"]] += 1
        self.send_response(code)
        if code == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def deliver(call: dict[str, str]) -> str:
    """POST the call; return the request that ends its item."""
    request = urllib.request.Request(
        call["url"], call["body"].encode(), {"Idempotency-Key": call["number"]}
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS):
            return "close"
    except urllib.error.HTTPError as error:
        after = error.headers.get("Retry-After", "")
        if after.isdigit():
            return f"abort/delay={after}s"
        if error.code < 500:  # another try would not help
            return f"abort/dead={quote(f'{error.code} {error.reason}', safe='')}"
    except OSError:  # the receiver does not answer
        pass
    return "abort"


def work(server: fresh.Server, queue: PooledClient, over: threading.Event) -> None:
    """Deliver calls, as one of several workers."""
    while not over.is_set():
        body, token = queue.gets(f"{QUEUE}/open/lease={LEASE}/t=200ms")
        if body is None:
            continue
        call = json.loads(body)
        end = deliver(call)
        if call["url"].endswith(DIES) and delivered[call["number"]] == 1:
            server.say("shop: was delivered, and the deliverer dies")
            continue
        server.say(f"{call['url'].rpartition('/')[2]}: {end}")
        queue.get(f"{QUEUE}/{end}/token={int(token)}")


def main() -> None:
    """Call five receivers: one answers, one is busy, one is weak, one is down, one is gone."""
    web = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    with fresh.server(__doc__) as server:
        queue, over = server.client(), threading.Event()
        fresh.declare(queue, QUEUE, RETRIES)
        for number, path in enumerate(ANSWERS, 1):
            call = {"url": f"http://127.0.0.1:{web.server_port}{path}", "number": str(number),
                    "body": "hello"}  # fmt: skip
            queue.set(QUEUE, json.dumps(call))
        threads = [
            threading.Thread(target=work, args=(server, queue, over)) for _ in range(DELIVERERS)
        ]
        for thread in threads:
            thread.start()
        fresh.wait_until_empty(queue, QUEUE)
        over.set()
        for thread in threads:
            thread.join()

        assert delivered == {"1": 2, "2": 1, "3": 1}
        assert asked["/down"] == 5
        server.say("delivered: 3, and the first one twice, which its number tells")
        assert fresh.say_dead(server, queue, QUEUE) >= 2
    web.shutdown()


if __name__ == "__main__":
    main()
