"""`/docs`: a page of ours over the Swagger files of `fastapi-offline`.

    /docs ──▶ swagger-ui.css, swagger-ui-bundle.js, start.js ──▶ /openapi.json

One rule: nothing is loaded from elsewhere, and the page may do no more than it needs.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from starlette.responses import HTMLResponse, Response

from kestrelpy.http.answers import HttpError
from kestrelpy.http.routing import Router

router: Final = Router(is_described=False)

# Swagger has its images in its style sheet.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>kestrelpy: the HTTP interface</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/docs/favicon.png">
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body></html>
"""
_START: Final = b"""SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis], layout: "BaseLayout",
});
"""
_TYPES: Final = {
    "favicon.png": "image/png",
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}


@router.get("/docs")
async def get_docs() -> Response:
    """Answer with the page."""
    return HTMLResponse(_PAGE, 200, {"Content-Security-Policy": POLICY})


@router.get("/docs/start.js")
async def get_start() -> Response:
    """Answer with the script that starts the page."""
    return Response(_START, 200, None, _TYPES["swagger-ui-bundle.js"])


@router.get("/docs/{name}")
async def get_file(name: str) -> Response:
    """Answer with one of Swagger's files."""
    if name not in _TYPES:
        raise HttpError(404, "there is nothing at this path; /docs is the page")
    body = await asyncio.to_thread(_read, name)
    return Response(body, 200, None, _TYPES[name])


def _read(name: str) -> bytes:
    spec = find_spec("fastapi_offline")  # an import of it would import FastAPI
    assert spec is not None and spec.submodule_search_locations is not None
    return (Path(spec.submodule_search_locations[0]) / "static" / name).read_bytes()
