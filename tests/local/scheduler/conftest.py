"""A scheduler over a local API server, with a clock that tests move."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from local.scheduler.site import Site, open_site


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Site]:
    """An API server without a scheduler yet."""
    async with open_site(tmp_path) as site:
        yield site


@pytest.fixture
async def site(empty: Site) -> Site:
    """A scheduler that has seen its first lists, and one node with one card of 10,000 MiB for ten pods."""
    await empty.start()
    await empty.process.wait_synced()
    await empty.register("n1")
    return empty
