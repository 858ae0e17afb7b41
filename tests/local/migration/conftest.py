"""A local API server without a scheduler yet."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from local.scheduler.site import Site, open_site


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Site]:
    """An API server without a scheduler yet."""
    async with open_site(tmp_path) as site:
        yield site
