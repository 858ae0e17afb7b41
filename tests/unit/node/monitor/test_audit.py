"""What the audit finds when promises, the kubelet's book and the driver do not agree."""

import msgspec
import pytest

from gpuloom.model.card import Card
from gpuloom.node.audit.comparison import AuditProblem, compare
from gpuloom.node.audit.processes import find_occupants, read_pod_uid
from gpuloom.node.audit.truths import Occupant, Truths, read_promise
from gpuloom.node.monitor.cards import CardProcess, CardUse
from gpuloom.wire.objects import Pod

MIB = 2**20
RESOURCE = "nvidia.com/gpu"
OFFER = {"GPU-a": Card("GPU-a", count=2, memory_mib=1000, cores=100)}


def make_pod(
    allocated, *, uid="u1", name="p", containers=("c",), init=(), phase="Running", limits=None, node="", more=()
):
    body = {
        "metadata": {
            "uid": uid,
            "namespace": "ns",
            "name": name,
            "annotations": {"hami.io/vgpu-devices-allocated": allocated, **dict(more)},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": each, "resources": {"limits": limits or {}}} for each in containers],
            "initContainers": [{"name": each} for each in init],
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(body, Pod)


def promise(allocated, **facts):
    return read_promise(make_pod(allocated, **facts), RESOURCE)


def foreign(**facts):
    """A pod that asks for a device and came past the scheduler."""
    return promise("", **{"node": "n1", "limits": {RESOURCE: "1"}, **facts})


def find(*promises, **truths):
    return [(finding.kind, finding.card_uuid, finding.pod_uid) for finding in compare(Truths(promises, **truths))]


ON_A = promise("GPU-a,NVIDIA,500,50:;")


def test_a_node_in_order_has_no_findings():
    occupants = [Occupant("GPU-a", 1, 500 * MIB, "u1")]
    assert find(ON_A, offered=OFFER, held={("ns", "p", "c"): 1}, occupants=occupants) == []


def test_what_is_not_known_finds_nothing():
    assert find(ON_A) == []


@pytest.mark.parametrize("share", ["501,10", "10,51"])
def test_a_card_of_which_too_much_is_promised_is_found(share):
    other = promise(f"GPU-a,NVIDIA,{share}:;", uid="u2", name="q")
    assert find(ON_A, other, offered=OFFER) == [(AuditProblem.OVERCOMMITTED, "GPU-a", "")]


def test_a_card_with_too_many_shares_is_found():
    pods = [promise("GPU-a,NVIDIA,1,1:;", uid=uid, name=uid) for uid in ("u1", "u2", "u3")]
    assert find(*pods, offered=OFFER) == [(AuditProblem.OVERCOMMITTED, "GPU-a", "")]


SEVENTHS = "GPU-a,NVIDIA,100,15:" * 7 + ";"


@pytest.mark.parametrize(("memory_mib", "count", "kinds"), [(700, 7, 0), (699, 7, 1), (700, 6, 1)])
def test_of_a_divided_card_the_rounded_cores_of_its_instances_are_not_counted(memory_mib, count, kinds):
    offer = {"GPU-a": Card("GPU-a", count=count, memory_mib=memory_mib, cores=100, mode="mig")}
    assert find(promise(SEVENTHS), offered=offer) == [(AuditProblem.OVERCOMMITTED, "GPU-a", "")] * kinds


def test_an_overcommitted_card_is_reported_with_its_pods():
    other = promise("GPU-a,NVIDIA,501,10:;", uid="u2", name="q")
    (finding,) = compare(Truths([ON_A, other], offered=OFFER))
    assert finding.message == (
        "card GPU-a is promised 2 shares, 1001 MiB, 60 % of cores, it has 2 shares, 1000 MiB, 100 % of cores: "
        "delete one of ns/p, ns/q"
    )


def test_readers_of_the_nodes_events_learn_no_names_of_pods_that_share_a_card():
    """trust: events of nodes stand in the namespace default, and are read by others than the pods'."""
    other = promise("GPU-a,NVIDIA,501,10:;", uid="u2", name="q")
    (finding,) = compare(Truths([ON_A, other], offered=OFFER))
    assert finding.nameless.endswith("100 % of cores: delete one of the pods with UIDs u1, u2")


def test_an_init_container_does_not_count_beside_the_regular_one():
    both = promise("GPU-a,NVIDIA,800,50:;GPU-a,NVIDIA,700,50:;", init=("i",))
    assert find(both, offered=OFFER) == []


def test_a_pod_that_has_ended_is_promised_nothing():
    over = promise("GPU-a,NVIDIA,900,50:;", uid="u2", phase="Succeeded")
    assert find(ON_A, over, offered=OFFER) == []


def test_a_pod_that_uses_more_memory_than_given_is_found():
    occupants = [Occupant("GPU-a", 1, 300 * MIB, "u1"), Occupant("GPU-a", 2, 201 * MIB, "u1")]
    assert find(ON_A, occupants=occupants) == [(AuditProblem.MEMORY_EXCEEDED, "GPU-a", "u1")]


def test_a_process_of_unknown_memory_exceeds_nothing():
    assert find(ON_A, occupants=[Occupant("GPU-a", 1, None, "u1")]) == []


def test_a_pod_on_a_card_that_it_was_not_given_is_found():
    assert find(ON_A, occupants=[Occupant("GPU-b", 1, 1, "u1")]) == [(AuditProblem.NOT_GIVEN, "GPU-b", "u1")]


def test_a_pod_on_a_wrong_card_is_reported_with_both_ids():
    (finding,) = compare(Truths([ON_A], occupants=[Occupant("GPU-b", 1, 1, "u1")]))
    assert (finding.card_uuid, finding.given) == ("GPU-b", ("GPU-a",))


def test_a_pod_with_no_card_that_computes_is_found():
    assert find(promise(""), occupants=[Occupant("GPU-a", 1, 1, "u1")]) == [(AuditProblem.NOT_GIVEN, "GPU-a", "u1")]


def test_an_instance_of_a_card_is_that_card():
    divided = promise("GPU-a[1-0],NVIDIA,500,50:;")
    assert find(divided, occupants=[Occupant("GPU-a", 1, 1, "u1")]) == []


@pytest.mark.parametrize(
    "pod",
    [promise("MIG-1,NVIDIA,4864,0:;"), promise("", limits={"nvidia.com/mig-1g.5gb": "1"})],
    ids=["single", "mixed"],
)
def test_a_pod_on_an_administrators_instance_computes_on_a_card_that_nobody_names(pod):
    assert find(pod, occupants=[Occupant("GPU-a", 1, 1, "u1")]) == []


@pytest.mark.parametrize("uid", ["", "u9"])
def test_a_process_that_belongs_to_no_pod_of_the_node_is_found(uid):
    assert find(ON_A, occupants=[Occupant("GPU-a", 7, 1, uid)]) == [(AuditProblem.UNACCOUNTED, "GPU-a", uid)]


def test_processes_of_no_pod_are_one_finding_of_their_card():
    (finding,) = compare(Truths([], occupants=[Occupant("GPU-a", 7, 1, ""), Occupant("GPU-a", 8, 1, "")]))
    assert "pid 7, 8" in finding.message


@pytest.mark.parametrize("held", [2, 3])
def test_another_number_of_devices_than_promised_is_found(held):
    assert find(ON_A, held={("ns", "p", "c"): held}) == [(AuditProblem.DEVICES_DIFFER, "", "u1")]


def test_devices_of_a_pod_that_was_promised_none_are_found():
    assert find(promise(""), held={("ns", "p", "c"): 1}) == [(AuditProblem.DEVICES_DIFFER, "", "u1")]


def test_devices_of_a_pod_that_is_not_known_yet_are_no_finding():
    assert find(held={("ns", "new", "c"): 1}) == []


def test_devices_of_a_pod_that_has_ended_are_no_finding():
    assert find(promise("GPU-a,NVIDIA,1,1:;", phase="Failed"), held={("ns", "p", "c"): 1}) == []


def test_an_unreadable_promise_finds_nothing():
    broken = promise("GPU-a,NVIDIA:;")
    assert find(broken, held={("ns", "p", "c"): 1}, occupants=[Occupant("GPU-b", 1, 1, "u1")]) == []


def test_shares_of_other_vendors_do_not_count():
    assert promise("GPU-a,NVIDIA,500,50:MLU-1,MLU,1,1:;").counts == {"c": 1}


def test_a_foreign_pod_that_computes_is_found_with_its_card():
    """trust T-03."""
    assert find(foreign(), occupants=[Occupant("GPU-b", 1, 1, "u1")]) == [(AuditProblem.FOREIGN, "GPU-b", "u1")]


def test_a_foreign_pod_that_holds_a_device_is_found():
    """trust T-03."""
    assert find(foreign(), held={("ns", "p", "c"): 1}) == [(AuditProblem.FOREIGN, "", "u1")]


def test_a_foreign_pod_whose_card_is_known_is_one_finding():
    occupants = [Occupant("GPU-b", 1, 1, "u1"), Occupant("GPU-b", 2, 1, "u1")]
    assert find(foreign(), held={("ns", "p", "c"): 1}, occupants=occupants) == [(AuditProblem.FOREIGN, "GPU-b", "u1")]


def test_a_static_pod_is_found_under_the_uid_of_its_processes():
    mirror = foreign(more={"kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef"})
    occupants = [Occupant("GPU-b", 1, 1, "0123456789abcdef0123456789abcdef")]
    assert find(mirror, occupants=occupants) == [(AuditProblem.FOREIGN, "GPU-b", "u1")]


@pytest.mark.parametrize("facts", [{}, {"phase": "Failed"}], ids=["waits or was refused", "over"])
def test_a_foreign_pod_that_holds_nothing_is_no_finding(facts):
    held = {("ns", "p", "c"): 1} if facts else {}
    assert find(foreign(**facts), held=held, occupants=[]) == []


def test_a_foreign_pod_is_reported_with_what_to_do():
    (finding,) = compare(Truths([foreign()], held={("ns", "p", "c"): 1}))
    assert "pod ns/p came past the scheduler and holds devices from the kubelet" in finding.message
    assert "create it again without spec.nodeName" in finding.message


def test_readers_of_the_nodes_events_do_not_learn_the_name_of_a_foreign_pod():
    """trust: as above."""
    (finding,) = compare(Truths([foreign()], held={("ns", "p", "c"): 1}))
    assert finding.nameless.startswith("the pod with UID u1 came past the scheduler and holds devices")


def test_a_pod_that_asks_for_no_device_and_computes_was_given_no_card():
    plain = foreign(limits={"cpu": "1"})
    assert find(plain, occupants=[Occupant("GPU-b", 1, 1, "u1")]) == [(AuditProblem.NOT_GIVEN, "GPU-b", "u1")]


def test_a_finding_stays_the_same_when_its_figures_change():
    one, other = (compare(Truths([ON_A], occupants=[Occupant("GPU-a", 1, mib * MIB, "u1")])) for mib in (501, 502))
    assert set(one) == set(other)


UID = "0b5f3a52-7a4e-4f0e-9f4a-0f6c4a1f9e55"


@pytest.mark.parametrize(
    ("group", "uid"),
    [
        (f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-abc.scope", UID),
        (f"/kubepods/burstable/pod{UID}/abc", UID),
        (f"/../../kubepods-besteffort-pod{UID.replace('-', '_')}.slice/cri-containerd-abc.scope", UID),
        ("/kubepods/burstable/pod0123456789abcdef0123456789abcdef/abc", "0123456789abcdef0123456789abcdef"),
        ("/system.slice/podman.service", ""),
        ("/", ""),
    ],
)
def test_a_process_belongs_to_the_pod_of_its_control_group(tmp_path, group, uid):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(f"0::{group}\n")
    assert read_pod_uid(tmp_path, 7) == uid


def test_a_process_that_is_gone_occupies_nothing(tmp_path):
    card = CardUse("GPU-a", 0, "T4", 0, 0, 0, (CardProcess(7, 1),))
    assert find_occupants([card], tmp_path) == ((), 1)
