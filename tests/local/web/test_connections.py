"""No port of a scheduler's pod keeps connections that ask nothing when there are too many (trust T-09)."""

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from local.scheduler.site import DEFAULTS, open_site

import gpuloom
from gpuloom.serving.connections import Limits
from gpuloom.web.server import WebPart, WebSettings

SOURCES = Path(gpuloom.__file__).parent
LISTENERS = {"main": "/healthz", "metrics": "/metrics", "web": "/sign-in"}


@pytest.fixture
async def urls(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    settings = dataclasses.replace(DEFAULTS, extender_bind="127.0.0.1:0", metrics_bind_address="127.0.0.1:0")
    async with open_site(tmp_path) as site:
        process = await site.start(settings)
        async with WebPart(WebSettings(web_bind="127.0.0.1:0"), process.parts, site.client) as part:
            yield {"main": process.urls.main, "metrics": process.urls.metrics, "web": part.url}


@pytest.mark.parametrize("listener", LISTENERS)
async def test_idle_connections_make_room_for_who_asks(urls: dict[str, str], listener: str) -> None:
    host, port = urls[listener].rpartition("//")[2].split(":")
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        idle = []
        for _ in range(Limits().most_of_one + 20):
            reader, writer = await asyncio.open_connection(host, int(port))
            stack.callback(writer.close)
            idle.append(reader)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with session.get(f"{urls[listener]}{LISTENERS[listener]}") as reply:
            assert reply.status == 200
        assert await idle[0].read() == b""


def test_no_listener_is_made_in_another_way() -> None:
    makes = re.compile(r"AppRunner|create_server\(|TCPSite|start_server\(")
    found = {str(file.relative_to(SOURCES)) for file in SOURCES.rglob("*.py") if makes.search(file.read_text())}
    # The local API server is a part of tests and of the demo.
    assert {path for path in found if not path.startswith("local/")} == {"serving/listener.py"}
