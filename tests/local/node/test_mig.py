"""Divided cards: instances are made for pods and taken back, and nothing in doubt is destroyed."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpuloom.kube.errors import ApiError, NotFoundError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.local.kubelet import SimulatedKubelet
from gpuloom.model.mig import MigPlacement
from gpuloom.node.agent import NodeAgent
from gpuloom.node.errors import AllocationError
from gpuloom.node.mig.keeper import MigKeeper
from gpuloom.node.mig.offers import MigOffer
from gpuloom.node.simulated import SimulatedFault, SimulatedMachine, load_machine
from gpuloom.wire.device_config import MigAllowlist, MigEntry, MigGeometries
from gpuloom.wire.errors import WireError
from gpuloom.wire.mig import decode_mig_allocations
from gpuloom.wire.register import decode_register

ALLOCATIONS = "hami.io/vgpu-mig-allocations"
REGISTER = "hami.io/node-nvidia-register"
ALLOWED = (MigAllowlist(("A100-SXM4-40GB",), ("1g.5gb", "3g.20gb")),)
RESOURCE = "nvidia.com/gpu"
ID = ("GPU-a-0",)


async def hurry(seconds):
    del seconds


@pytest.fixture
def settings(settings):
    return replace(settings, mode="mig", mig_allowlist=ALLOWED)


@pytest.fixture
def machine():
    return SimulatedMachine("n1", load_machine("eight-a100-40gb"))


@pytest.fixture
def first(machine):
    return machine.gpus[0].uuid


@pytest.fixture
async def make_keeper(settings, local_client, machine):
    await local_client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    return lambda: MigKeeper(settings, local_client, machine, sleep=hurry)


@pytest.fixture
async def keeper(make_keeper, machine):
    keeper = make_keeper()
    await keeper.prepare(machine.gpus)
    return keeper


def promise(uuid, *starts):
    return json.dumps(
        [
            {
                "containerIndex": 0,
                "deviceIndex": place,
                "gpuUUID": uuid,
                "profile": "1g.5gb",
                "placement": {"start": start, "size": 1},
            }
            for place, start in enumerate(starts)
        ]
    )


@pytest.fixture
def add_pod(local_client, first):
    """A pod on the node that was promised instances at these places of the first card."""

    async def add(name, *starts):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {
                    ALLOCATIONS: promise(first, *starts),
                    "hami.io/vgpu-devices-to-allocate": f"{first},NVIDIA,4864,15:" * len(starts) + ";",
                },
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        return await local_client.create(PODS, body, namespace="default")

    return add


@pytest.fixture
def places(machine, first):
    """Where instances lie on the first card."""

    async def read():
        return [part.placement.start for part in await machine.mig.list_parts(first)]

    return read


async def finish(client, name):
    await client.patch(PODS, name, {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status")


async def enter(client, pod, runtimes):
    """Write into the pod's annotation which instances it got, as Allocate does."""
    records = json.loads(pod.annotations[ALLOCATIONS])
    for record, runtime in zip(records, runtimes.values(), strict=True):
        record |= {
            "migUUID": runtime.mig_uuid,
            "gpuInstanceID": runtime.gpu_instance_id,
            "computeInstanceID": runtime.compute_instance_id,
        }
    annotations = {ALLOCATIONS: json.dumps(records)}
    await client.patch(PODS, pod.name, {"metadata": {"annotations": annotations}}, namespace="default")


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"mig_allowlist": (MigAllowlist(("H100",), ("1g.10gb",)),)}, "migProfileAllowlist"),
        ({"mig_allowlist": (), "mig_geometries": (MigGeometries(("H100",), ()),)}, "knownMigGeometries"),
    ],
)
async def test_a_card_that_no_group_of_the_setting_is_for_is_told_with_both(
    settings, local_client, machine, changes, setting
):
    keeper = MigKeeper(replace(settings, **changes), local_client, machine, sleep=hurry)
    with capture_logs() as logs:
        assert await keeper.prepare(machine.gpus[:1]) == {}
    (line,) = (line for line in logs if line["log_level"] == "error")
    assert (line["uuid"], line["model"], line["setting"]) == (
        machine.gpus[0].uuid,
        "NVIDIA A100-SXM4-40GB",
        setting,
    )
    assert "1g.5gb" in line["known"]


async def test_allowed_profiles_are_offered(make_keeper, machine, first):
    offers = await make_keeper().prepare(machine.gpus)
    assert [profile.name for profile in offers[first].profiles] == ["1g.5gb", "3g.20gb"]


async def test_idle_cards_are_emptied_at_the_start(make_keeper, machine, first, places):
    await machine.mig.enable(first)
    await machine.mig.create_part(first, "1g.5gb", MigPlacement(3, 1))
    await make_keeper().prepare(machine.gpus)
    assert await places() == []


async def test_a_card_on_which_a_program_computes_is_left_alone(make_keeper, machine, first, places):
    await machine.mig.enable(first)
    await machine.mig.create_part(first, "1g.5gb", MigPlacement(3, 1))
    machine.mig.busy.add(first)
    await make_keeper().prepare(machine.gpus)
    assert await places() == [3]


async def test_nothing_is_emptied_while_pods_cannot_be_listed(make_keeper, machine, first, places, local_server):
    await machine.mig.enable(first)
    await machine.mig.create_part(first, "1g.5gb", MigPlacement(3, 1))
    local_server.faults.add(InjectedFault("GET", "/pods", status=403, reason="Forbidden"))
    await make_keeper().prepare(machine.gpus)
    assert await places() == [3]


async def test_a_card_without_allowed_profiles_is_not_offered(make_keeper, machine, first):
    offers = await make_keeper().prepare([replace(gpu, name="NVIDIA L4") for gpu in machine.gpus[:1]])
    assert offers == {}


async def test_instances_are_made_exactly_where_they_were_promised(keeper, add_pod, places):
    await keeper.create(await add_pod("p", 4, 6), [ID * 2])
    assert await places() == [4, 6]


async def test_a_second_instance_that_cannot_be_made_takes_the_first_back(keeper, add_pod, places):
    await keeper.create(await add_pod("p", 6), [ID])
    with pytest.raises(AllocationError, match=r"default/q cannot have its MIG instances: .* no room"):
        await keeper.create(await add_pod("q", 4, 6), [ID * 2])
    assert await places() == [6]


async def test_the_lock_file_is_gone_after_an_instance_was_made(keeper, add_pod, settings):
    await keeper.create(await add_pod("p", 6), [ID])
    assert not settings.mig_lock.exists()


async def test_an_instance_stays_while_its_pod_lives(keeper, add_pod, places):
    await keeper.create(await add_pod("p", 6), [ID])
    await keeper.reconcile()
    assert await places() == [6]


async def test_an_instance_goes_when_its_pod_is_over(keeper, add_pod, places, local_client):
    await keeper.create(await add_pod("p", 6), [ID])
    await finish(local_client, "p")
    await keeper.reconcile()
    assert await places() == []


async def test_an_instance_goes_when_its_pod_is_gone(keeper, add_pod, places, local_client):
    await keeper.create(await add_pod("p", 6), [ID])
    await local_client.delete(PODS, "p", namespace="default", grace_period_s=0)
    await keeper.reconcile()
    assert await places() == []


async def test_another_pod_of_the_same_name_is_not_the_owner(keeper, add_pod, places, local_client):
    await keeper.create(await add_pod("p", 6), [ID])
    await local_client.delete(PODS, "p", namespace="default", grace_period_s=0)
    await add_pod("p", 5)
    await keeper.reconcile()
    assert await places() == []


async def test_an_instance_that_a_living_pod_names_stays(keeper, add_pod, places, local_client):
    runtimes = await keeper.create(await add_pod("p", 6), [ID])
    await finish(local_client, "p")
    await enter(local_client, await add_pod("q", 6), runtimes)
    await keeper.reconcile()
    assert await places() == [6]


async def test_an_instance_of_somebody_else_stays(keeper, machine, first, places):
    await machine.mig.create_part(first, "1g.5gb", MigPlacement(0, 1))
    await keeper.reconcile()
    assert await places() == [0]


async def test_nothing_is_destroyed_while_pods_cannot_be_listed(keeper, add_pod, places, local_client, local_server):
    await keeper.create(await add_pod("p", 6), [ID])
    await finish(local_client, "p")
    local_server.faults.add(InjectedFault("GET", "/pods", status=403, reason="Forbidden"))
    with pytest.raises(ApiError):
        await keeper.reconcile()
    assert await places() == [6]


async def test_nothing_is_destroyed_while_a_pods_annotation_cannot_be_read(keeper, add_pod, places, local_client):
    await keeper.create(await add_pod("p", 6), [ID])
    await finish(local_client, "p")
    await add_pod("broken", 5)
    await local_client.patch(PODS, "broken", {"metadata": {"annotations": {ALLOCATIONS: "{"}}}, namespace="default")
    with pytest.raises(WireError):
        await keeper.reconcile()
    assert await places() == [6]


async def test_the_place_of_a_pod_that_is_gone_can_be_given_at_once(keeper, add_pod, places, local_client):
    await keeper.create(await add_pod("p", 6), [ID])
    await local_client.delete(PODS, "p", namespace="default", grace_period_s=0)
    await keeper.create(await add_pod("q", 6), [ID])
    await keeper.reconcile()
    assert await places() == [6]


async def test_the_place_of_a_pod_that_is_gone_is_given_although_the_api_server_failed_for_a_moment(
    keeper, add_pod, places, local_client, local_server
):
    await keeper.create(await add_pod("p", 6), [ID])
    await local_client.delete(PODS, "p", namespace="default", grace_period_s=0)
    pod = await add_pod("q", 6)
    local_server.faults.add(InjectedFault("GET", "/pods", times=2, status=503))
    await keeper.create(pod, [ID])
    assert await places() == [6]


async def test_room_elsewhere_is_given_although_nothing_can_be_taken_back(keeper, add_pod, places, local_server):
    await keeper.create(await add_pod("p", 6), [ID])
    pod = await add_pod("q", 5)
    local_server.faults.add(InjectedFault("GET", "/pods", status=403, reason="Forbidden"))
    await keeper.create(pod, [ID])
    assert await places() == [6, 5]


async def test_an_instance_that_cannot_be_destroyed_holds_up_no_other(keeper, local_client, machine):
    for place, gpu in enumerate(machine.gpus[:2]):
        annotations = {
            ALLOCATIONS: promise(gpu.uuid, 6),
            "hami.io/vgpu-devices-to-allocate": f"{gpu.uuid},NVIDIA,4864,15:;",
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{place}", "namespace": "default", "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        await keeper.create(await local_client.create(PODS, body, namespace="default"), [ID])
    await finish(local_client, "p0")
    await finish(local_client, "p1")
    machine.set_faults([SimulatedFault(kind="failing", card=0)])
    await keeper.reconcile()
    machine.set_faults([])
    left = [len(await machine.mig.list_parts(gpu.uuid)) for gpu in machine.gpus[:2]]
    await keeper.reconcile()
    assert (left, await machine.mig.list_parts(machine.gpus[0].uuid)) == ([1, 0], ())


@pytest.fixture
async def heir(keeper, make_keeper, add_pod, local_client, machine):
    """A keeper that starts while the instance of pod p, which another one made, is there."""
    pod = await add_pod("p", 6)
    await enter(local_client, pod, await keeper.create(pod, [ID]))
    heir = make_keeper()
    await heir.prepare(machine.gpus)
    return heir


async def test_an_instance_outlives_a_restart(heir, places):
    await heir.reconcile()
    assert await places() == [6]


async def test_an_instance_from_before_a_restart_goes_with_its_pod(heir, places, local_client):
    await finish(local_client, "p")
    await heir.reconcile()
    assert await places() == []


async def test_an_instance_that_is_not_as_promised_is_not_adopted(
    heir, make_keeper, machine, first, local_client, places
):
    (part,) = await machine.mig.list_parts(first)
    await machine.mig.destroy_part(first, part.gpu_instance_id)
    await machine.mig.create_part(first, "3g.20gb", MigPlacement(4, 4))
    other = make_keeper()
    await other.prepare(machine.gpus)
    await finish(local_client, "p")
    await other.reconcile()
    assert await places() == [4]


@pytest.fixture
async def node(settings, local_client, machine):
    async with (
        SimulatedKubelet("n1", local_client, settings.plugins_dir) as kubelet,
        NodeAgent(settings, local_client, machine, sleep=slow_down) as agent,
    ):
        yield kubelet, agent


async def slow_down(seconds):
    await asyncio.sleep(seconds / 100)


async def wait_until(check):
    async with asyncio.timeout(60):
        while True:
            with suppress(NotFoundError):
                if await check():
                    return
            await asyncio.sleep(0.01)


@pytest.fixture
def bind_pod(local_client, first):
    """What the scheduler does for a pod whose container gets instances at these places."""

    async def bind(name, *starts):
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulerName": "hami-scheduler",
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {RESOURCE: str(len(starts))}}}],
            },
        }
        pod = await local_client.create(PODS, body, namespace="default")
        lock = {"hami.io/mutex.lock": f"2026-01-01T00:00:00Z,default,{name}"}
        await local_client.patch(NODES, "n1", {"metadata": {"annotations": lock}})
        await local_client.bind(
            namespace="default",
            name=name,
            uid=pod.metadata.uid,
            node="n1",
            annotations={
                "hami.io/vgpu-node": "n1",
                "hami.io/vgpu-devices-to-allocate": f"{first},NVIDIA,4864,15:" * len(starts) + ";",
                ALLOCATIONS: promise(first, *starts),
                "hami.io/bind-phase": "allocating",
                "hami.io/bind-time": "1767225600",
            },
            labels={},
        )

    return bind


@pytest.fixture
def wait_for(local_client):
    async def wait(name, phase):
        async def has_phase():
            return (await local_client.get(PODS, name, namespace="default")).status.phase == phase

        await wait_until(has_phase)
        return await local_client.get(PODS, name, namespace="default")

    return wait


async def test_a_divided_node_counts_what_fits_on_its_cards(node):
    kubelet, _ = node

    async def has_devices():
        return kubelet.allocatable.get(RESOURCE) == 8 * 7

    await wait_until(has_devices)


async def test_a_divided_card_registers_its_profiles(node, local_client):
    async def is_registered():
        return REGISTER in (await local_client.get(NODES, "n1")).annotations

    await wait_until(is_registered)
    card = decode_register((await local_client.get(NODES, "n1")).annotations[REGISTER])[0]
    assert (card.mode, card.count, card.memory_mib, card.cores, [one.name for one in card.mig_profiles]) == (
        "mig",
        7,
        40960,
        100,
        ["1g.5gb", "3g.20gb"],
    )


@pytest.fixture
async def served(node, bind_pod, wait_for):
    kubelet, _ = node

    async def has_devices():
        return bool(kubelet.allocatable.get(RESOURCE))

    await wait_until(has_devices)
    await bind_pod("p", 5, 6)
    return await wait_for("p", "Running")


async def test_a_container_sees_its_instances_and_no_limiter(served, node, machine, first):
    kubelet, _ = node
    uuids = [part.runtime.mig_uuid for part in await machine.mig.list_parts(first)]
    assert kubelet.environments["default", "p", "c"] == {"NVIDIA_VISIBLE_DEVICES": ",".join(uuids)}
    assert kubelet.mounts["default", "p", "c"] == {}


async def test_the_pods_annotation_names_its_instances(served, machine, first):
    allocations = decode_mig_allocations(served.annotations[ALLOCATIONS])
    assert [one.runtime for one in allocations] == [part.runtime for part in await machine.mig.list_parts(first)]


async def test_a_pod_with_instances_is_done_as_any_other(served, local_client):
    lock = (await local_client.get(NODES, "n1")).annotations.get("hami.io/mutex.lock")
    assert (served.annotations["hami.io/bind-phase"], lock) == ("success", None)


async def test_a_deleted_pods_instances_are_taken_back(served, places, local_client):
    await local_client.delete(PODS, "p", namespace="default")

    async def are_gone():
        return not await places()

    await wait_until(are_gone)


async def test_a_pod_whose_instance_cannot_be_made_fails_and_leaves_nothing(served, bind_pod, wait_for, places):
    await bind_pod("q", 4, 5)
    pod = await wait_for("q", "Failed")
    assert "cannot have its MIG instances" in pod.status.message
    assert await places() == [5, 6]


async def test_a_pod_that_cannot_be_written_to_gives_its_instances_back(
    served, bind_pod, wait_for, places, local_server
):
    local_server.faults.add(InjectedFault("PATCH", "/pods/q", status=403, reason="Forbidden"))
    await bind_pod("q", 4)
    await wait_for("q", "Failed")
    assert await places() == [5, 6]


class TestOlderWay:
    """With geometries instead of allowed profiles, as HAMi up to 2.9 divides cards."""

    @pytest.fixture
    def settings(self, settings):
        geometry = (MigEntry("1g.5gb", count=1), MigEntry("2g.10gb", count=3))
        return replace(settings, mig_allowlist=(), mig_geometries=(MigGeometries(("A100",), (geometry,)),))

    @pytest.fixture
    def add_pod(self, local_client, first):
        """A pod on the node that was scheduled to these positions of the first card's geometry."""

        async def add(name, *positions):
            shares = "".join(f"{first}[0-{position}],NVIDIA,5120,14:" for position in positions) + ";"
            annotations = {"hami.io/vgpu-devices-to-allocate": shares, "hami.io/vgpu-devices-allocated": shares}
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "annotations": annotations},
                "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
            }
            return await local_client.create(PODS, body, namespace="default")

        return add

    async def test_a_card_registers_no_profiles(self, make_keeper, machine, first):
        assert (await make_keeper().prepare(machine.gpus))[first] == MigOffer((), 10)

    async def test_instances_are_made_at_the_places_of_their_positions(self, keeper, add_pod, places):
        await keeper.create(await add_pod("p", 0, 2), [ID * 2])
        assert await places() == [6, 2]

    async def test_an_instance_goes_when_its_pod_is_over(self, keeper, add_pod, places, local_client):
        await keeper.create(await add_pod("p", 0), [ID])
        await finish(local_client, "p")
        await keeper.reconcile()
        assert await places() == []

    async def test_an_instance_outlives_a_restart_and_then_goes_with_its_pod(
        self, keeper, make_keeper, add_pod, places, local_client, machine
    ):
        await keeper.create(await add_pod("p", 1), [ID])
        heir = make_keeper()
        await heir.prepare(machine.gpus)
        assert await places() == [0]
        await finish(local_client, "p")
        await heir.reconcile()
        assert await places() == []

    async def test_a_position_that_is_not_configured_is_refused(self, keeper, add_pod):
        with pytest.raises(AllocationError, match="must read the same file"):
            await keeper.create(await add_pod("p", 9), [ID])

    async def test_a_container_sees_its_instance(self, node, local_client, machine, first, wait_for):
        kubelet, _ = node

        async def has_devices():
            return bool(kubelet.allocatable.get(RESOURCE))

        await wait_until(has_devices)
        container = {"name": "c", "image": "i", "resources": {"limits": {RESOURCE: "1"}}}
        spec = {"schedulerName": "hami-scheduler", "containers": [container]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        pod = await local_client.create(PODS, body, namespace="default")
        annotations = {
            "hami.io/vgpu-node": "n1",
            "hami.io/vgpu-devices-to-allocate": f"{first}[0-0],NVIDIA,5120,14:;",
            "hami.io/bind-phase": "allocating",
        }
        await local_client.bind(
            namespace="default", name="p", uid=pod.metadata.uid, node="n1", annotations=annotations, labels={}
        )
        await wait_for("p", "Running")
        (part,) = await machine.mig.list_parts(first)
        assert kubelet.environments["default", "p", "c"] == {"NVIDIA_VISIBLE_DEVICES": part.runtime.mig_uuid}
