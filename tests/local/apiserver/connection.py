"""Connects the contract tests' client to a local server."""

import ssl

import aiohttp
from contract.client import Client

from gpuloom.local.apiserver import LocalApiServer


def connect(server: LocalApiServer, session: aiohttp.ClientSession) -> Client:
    """Return a client whose namespace is `default`."""
    tls = ssl.create_default_context(cadata=server.ca_pem.decode())
    return Client(session, server.url, server.token, tls, "default")
