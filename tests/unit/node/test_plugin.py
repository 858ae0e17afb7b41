from dataclasses import replace

from gpuloom.model.card import Card
from gpuloom.node.plugin import list_devices

CARDS = (Card(id="GPU-a", count=2, numa=1, healthy=True), Card(id="GPU-b", index=1, count=1))


def test_every_replica_has_the_health_of_its_card(settings):
    listed = [(device.ID, device.health) for device in list_devices(CARDS, settings)]
    assert listed == [("GPU-a-0", "Healthy"), ("GPU-a-1", "Healthy"), ("GPU-b-0", "Unhealthy")]


def test_numa_nodes_are_told_only_where_they_are_wanted(settings):
    assert not any(device.HasField("topology") for device in list_devices(CARDS, settings))


def test_numa_nodes_are_told_where_they_are_wanted(settings):
    devices = list_devices(CARDS, replace(settings, enable_numa_topology=True))
    assert [device.topology.nodes[0].ID for device in devices] == [1, 1, 0]
