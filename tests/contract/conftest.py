"""The two servers that every contract test runs against."""

import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from contract.client import Client

from gpuloom.local.apiserver import LocalApiServer
from harness.controlplane import ControlPlane

REAL = pytest.param("real", marks=pytest.mark.control_plane)


@asynccontextmanager
async def _client(url: str, token: str, tls: ssl.SSLContext) -> AsyncIterator[Client]:
    """Return a client with a namespace of its own, and delete afterwards what it made outside of it."""
    async with aiohttp.ClientSession() as session:
        client = Client(session, url, token, tls, f"contract-{uuid.uuid4().hex[:12]}")
        await client.create("/api/v1/namespaces", {"metadata": {"name": client.namespace}})
        try:
            yield client
        finally:
            await client.clean()


@asynccontextmanager
async def _real(control_plane: ControlPlane) -> AsyncIterator[Client]:
    tls = ssl.create_default_context(cafile=str(control_plane.ca_file))
    async with _client(control_plane.url, control_plane.admin_token, tls) as client:
        yield client


@asynccontextmanager
async def _local(server: LocalApiServer) -> AsyncIterator[Client]:
    tls = ssl.create_default_context(cadata=server.ca_pem.decode())
    async with _client(server.url, server.token, tls) as client:
        yield client


@pytest.fixture(params=["local", REAL])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    if request.param == "real":
        async with _real(request.getfixturevalue("control_plane")) as client:
            yield client
    else:
        async with LocalApiServer() as server, _local(server) as client:
            yield client


@pytest.fixture(params=["local", REAL])
async def forgetful_api(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Return a client of a server that has forgotten every change before now."""
    if request.param == "real":
        control_plane = request.getfixturevalue("own_control_plane")
        control_plane.restart_apiserver()
        async with _real(control_plane) as client:
            yield client
    else:
        async with LocalApiServer() as server:
            server.faults.expire_history()
            async with _local(server) as client:
                yield client


@pytest.fixture
async def node(api: Client) -> str:
    """Return the name of a node."""
    created = await api.create("/api/v1/nodes", {"metadata": {"name": f"node-{api.namespace}"}})
    return str(created["metadata"]["name"])
