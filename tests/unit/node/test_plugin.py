from dataclasses import replace

from gpuloom.model.card import Card
from gpuloom.node.plugin import list_devices, plugin_options
from gpuloom.node.settings import TimeSlicing

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
