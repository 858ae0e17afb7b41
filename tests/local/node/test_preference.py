"""The kubelet asks which ids the plugin prefers, over real sockets."""

from dataclasses import replace

import pytest

from gpuloom.node.api import deviceplugin_pb2 as api
from gpuloom.node.api.deviceplugin_pb2_grpc import DevicePluginStub
from gpuloom.node.replicas import physical_id
from gpuloom.node.sockets import dial


@pytest.fixture
def settings(settings):
    return replace(settings, enable_preferred_allocation=True)


async def run_pod(site, name, *cards):
    uuids = [site.machine.gpus[card].uuid for card in cards]
    pod = await site.create_pod(name, count=len(cards))
    await site.bind(pod, "".join(f"{uuid},NVIDIA,1000,10:" for uuid in uuids) + ";")
    await site.wait_for_phase(name, "Running")
    return uuids, pod


@pytest.mark.parametrize("cards", [(0,), (1,), (0, 1), (1, 0)])
async def test_the_kubelet_takes_ids_of_the_cards_that_the_scheduler_chose(site, cards):
    uuids, pod = await run_pod(site, "p", *cards)
    assert sorted(map(physical_id, site.kubelet.held_by(pod.metadata.uid))) == sorted(uuids)


async def test_the_options_offer_it(site):
    async with dial(site.settings.plugin_socket) as channel:
        options = await DevicePluginStub(channel).GetDevicePluginOptions(api.Empty())
    assert options.get_preferred_allocation_available


async def test_without_a_waiting_pod_every_request_has_an_empty_answer(site):
    request = api.PreferredAllocationRequest(
        container_requests=[api.ContainerPreferredAllocationRequest(allocation_size=1)] * 2
    )
    async with dial(site.settings.plugin_socket) as channel:
        response = await DevicePluginStub(channel).GetPreferredAllocation(request)
    assert [[*one.device_ids] for one in response.container_responses] == [[], []]
