"""A kombu transport, so that Celery's broker is kestrelpy.

    import kestrelpy.kombu           registers the name `kestrelpy` with kombu

    app = Celery("shop", broker="kestrelpy://127.0.0.1:22133")

Without that import, write `kestrelpy.kombu.transport://127.0.0.1:22133`: kombu imports it by name.

One rule: a message is done when its lease is confirmed. A lease that no worker confirms, renews or
gives back expires, so no message is lost, and one may come twice.
"""

from kombu.transport import TRANSPORT_ALIASES

from kestrelpy.kombu.names import NameRefused
from kestrelpy.kombu.options import Unsupported
from kestrelpy.kombu.transport import QueueFull, Transport, Undeliverable, UrlRefused

TRANSPORT_ALIASES.setdefault("kestrelpy", "kestrelpy.kombu:Transport")

__all__ = ["NameRefused", "QueueFull", "Transport", "Undeliverable", "Unsupported", "UrlRefused"]
