"""A client of the messaging API, in a few words: one project, one Client-ID."""

from __future__ import annotations

from typing import Any

import httpx

CLIENT = "3381af92-2b9e-11e3-b191-71861300734c"
OTHER = "3381af92-2b9e-11e3-b191-71861300734d"
PATCH_TYPE = "application/openstack-messaging-v2.0-json-patch"


class Api:
    """Calls under `/v2/queues` of one project."""

    def __init__(
        self, client: httpx.AsyncClient, project: str = "acme", uuid: str = CLIENT
    ) -> None:
        self._client = client
        self.headers = {"Client-ID": uuid, "X-Project-ID": project}

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Ask; `path` begins after `/v2/queues`, or is whole."""
        url = path if path.startswith("/v2") else f"/v2/queues{path}"
        if isinstance(body, bytes):
            more["content"] = body
        elif body is not None:
            more["json"] = body
        headers = {**self.headers, **more.pop("headers", {})}
        return await self._client.request(method, url, headers=headers, **more)

    async def post(self, queue: str, *bodies: Any, **more: Any) -> list[str]:
        """Post messages; return their ids."""
        messages = [{"body": body, **more} for body in bodies]
        done = await self.ask("POST", f"/{queue}/messages", {"messages": messages})
        assert done.status_code == 201, done.text
        return [href.rpartition("/")[2] for href in done.json()["resources"]]

    async def claim(self, queue: str, query: str = "", **times: int) -> tuple[str, list[Any]]:
        """Claim messages; return the id of the claim and the messages, or "" and none."""
        done = await self.ask("POST", f"/{queue}/claims?{query}", times or None)
        if done.status_code == 204:
            return "", []
        assert done.status_code == 201, done.text
        return done.headers["location"].rpartition("/")[2], done.json()["messages"]

    async def listed(self, queue: str, query: str = "echo=true") -> list[Any]:
        """List messages; return their bodies."""
        done = await self.ask("GET", f"/{queue}/messages?{query}")
        assert done.status_code == 200, done.text
        return [each["body"] for each in done.json()["messages"]]

    async def patch(self, queue: str, *operations: tuple[Any, ...]) -> httpx.Response:
        """Patch metadata: each operation with its key, and its value."""
        body = [
            {"op": op, "path": f"/metadata/{key}", **({"value": value[0]} if value else {})}
            for op, key, *value in operations
        ]
        return await self.ask("PATCH", f"/{queue}", body, headers={"Content-Type": PATCH_TYPE})


def bodies(messages: list[Any]) -> list[Any]:
    """The bodies of messages."""
    return [each["body"] for each in messages]
