"""A driver of two cards, the real library for Python over it, and a node that looks after them."""

import pynvml
import pytest
from unit.node.driver.scenarios import Node

from gpuloom.node.nvidia import DriverNvml
from harness.stubdriver import StubCard, StubLink


@pytest.fixture
def make_driver(make_stub_driver):
    def make(*cards):
        return make_stub_driver(
            *cards
            or (
                StubCard("GPU-a", links=[StubLink("00000000:5E:00.0")]),
                StubCard(
                    "GPU-b", pci_bus_id="00000000:5E:00.0", minor=1, links=[StubLink("00000000:3B:00.0")], mig_mode=0
                ),
            ),
            wait_ms=1,
        )

    return make


@pytest.fixture
def library(make_driver):
    return make_driver()


@pytest.fixture
async def node(tmp_path):
    async with DriverNvml(pynvml, sysfs=tmp_path) as nvml:
        yield Node(nvml)
