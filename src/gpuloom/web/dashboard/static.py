"""The pages' own files: styles and one script, named by their content so that browsers may keep them for good."""

import hashlib
from functools import cache
from importlib.resources import files

from aiohttp import web

from gpuloom.web.dashboard.mapstyle import draw_style

_MAP = "map.css"
_KINDS = {"dashboard.css": "text/css", _MAP: "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}


@cache
def find_asset(name: str) -> str:
    """Return the path that a page names."""
    return f"/static/{_digest(name)}/{name}"


async def answer_asset(request: web.Request) -> web.Response:
    """Serve a file."""
    name = request.match_info["name"]
    if name not in _KINDS or request.path != find_asset(name):
        raise web.HTTPNotFound
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return web.Response(body=_read(name), content_type=_KINDS[name], charset="utf-8", headers=headers)


@cache
def _read(name: str) -> bytes:
    if name == _MAP:
        return draw_style().encode()
    return files("gpuloom.web.dashboard").joinpath("static", name).read_bytes()


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(_read(name)).hexdigest()[:16]
