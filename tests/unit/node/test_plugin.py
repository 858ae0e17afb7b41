from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpuloom.model.card import Card
from gpuloom.node.allocate import Allocator
from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.errors import AllocationError
from gpuloom.node.health import HealthBook
from gpuloom.node.inventory import CardInventory
from gpuloom.node.plugin import DevicePluginService, list_devices, plugin_options
from gpuloom.node.settings import TimeSlicing
from gpuloom.node.simulated import SimulatedMachine, load_machine

RESOURCE = "nvidia.com/gpu"
CARDS = (Card(id="GPU-a", count=2, numa=1, healthy=True), Card(id="GPU-b", index=1, count=1))


def test_every_replica_has_the_health_of_its_card(settings):
    listed = [(device.ID, device.health) for device in list_devices(CARDS, settings, RESOURCE)]
    assert listed == [("GPU-a-0", "Healthy"), ("GPU-a-1", "Healthy"), ("GPU-b-0", "Unhealthy")]


def test_numa_nodes_are_told_only_where_they_are_wanted(settings):
    assert not any(device.HasField("topology") for device in list_devices(CARDS, settings, RESOURCE))


def test_numa_nodes_are_told_where_they_are_wanted(settings):
    devices = list_devices(CARDS, replace(settings, enable_numa_topology=True), RESOURCE)
    assert [device.topology.nodes[0].ID for device in devices] == [1, 1, 0]


def test_slices_in_time_have_ids_of_their_own(settings):
    sliced = replace(settings, time_slicing=TimeSlicing({RESOURCE: 2}))
    assert [device.ID for device in list_devices(CARDS, sliced, RESOURCE)] == ["GPU-a::0", "GPU-a::1", "GPU-b::0"]


def test_only_the_schedulers_resource_has_preferences(settings):
    wanted = replace(settings, enable_preferred_allocation=True)
    options = [plugin_options(wanted, each) for each in (RESOURCE, "nvidia.com/mig-1g.5gb")]
    assert [one.get_preferred_allocation_available for one in options] == [True, False]


class Refusing(Allocator):
    """An allocator that refuses every call."""

    def __init__(self):
        pass

    async def allocate(self, requests, *, on_found=None):
        del requests, on_found
        raise AllocationError("pod secret/x is in the way", "a pod of another namespace is in the way")


class AbortedError(Exception):
    """What the kubelet is told."""


class Context:
    """The context of a call that may be aborted."""

    async def abort(self, code, details):
        del code
        raise AbortedError(details)


async def test_the_kubelet_is_told_of_a_refusal_without_others_names_and_the_log_has_them(settings):
    inventory = CardInventory(SimulatedMachine("n1", load_machine("two-t4")), settings, HealthBook(settings.health))
    service = DevicePluginService(settings, inventory, Refusing(), lambda *_: None)
    request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=["GPU-a-0"])])
    with capture_logs() as lines, pytest.raises(AbortedError, match=r"^a pod of another namespace is in the way$"):
        await service.Allocate(request, Context())
    assert [line["error"] for line in lines] == ["pod secret/x is in the way"]
