"""A local API server per test, and a bare client for it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from contract.client import Client
from local.apiserver.connection import connect

from gpuloom.local.apiserver import LocalApiServer


@pytest.fixture
async def server() -> AsyncIterator[LocalApiServer]:
    async with LocalApiServer() as running:
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def api(server: LocalApiServer, session: aiohttp.ClientSession) -> Client:
    return connect(server, session)
