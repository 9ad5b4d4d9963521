"""The messaging API under /v2, as OpenStack Zaqar has it: queues, messages and claims."""

from kestrelpy.http.zaqar.routes import router

__all__ = ["router"]
