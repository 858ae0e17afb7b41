"""A folder with a short path, and a local cluster of one node with two cards in it."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuloom.local.cluster import LocalCluster
from gpuloom.local.description import ClusterDescription, NodeDescription
from gpuloom.node.simulated import CardGroup, MachineDescription

TWO_CARDS = MachineDescription(cards=(CardGroup(model="NVIDIA L4", memory_mib=20000, count=2),))


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gl-") as name:
        yield Path(name)


@pytest.fixture
async def cluster(directory: Path) -> AsyncIterator[LocalCluster]:
    async with LocalCluster(ClusterDescription(nodes=(NodeDescription("n1", TWO_CARDS),)), directory) as cluster:
        await cluster.wait_until_registered()
        yield cluster
