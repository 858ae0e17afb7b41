"""What the doctor says of nodes and of kube-scheduler, one made-up fact at a time."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from unit.doctor.clusterfacts import (
    CARD,
    CONFIGURATION,
    EXTENDER,
    FLAGS,
    HANDSHAKE,
    HEALTHY,
    KUBE_SCHEDULER,
    LOCK,
    NOW,
    REGISTER,
    daemon_set,
    node,
    pod,
)
from unit.doctor.judging import judge_changed, told

from gpuloom.doctor.checks import UnseenError
from gpuloom.doctor.cluster.kubescheduler import judge_device_configuration, judge_kube_scheduler
from gpuloom.doctor.cluster.nodes import judge_handshakes, judge_locks, judge_offers, judge_registers, judge_unserved
from gpuloom.doctor.findings import Fault, Severity
from gpuloom.wire.lock import NodeLock, encode_lock
from gpuloom.wire.objects import Pod

judge = partial(judge_changed, HEALTHY)
ERROR, WARNING = Severity.ERROR, Severity.WARNING
NODE = "node n1"


def lock(seconds: int, name: str = "p") -> str:
    return encode_lock(NodeLock(NOW - timedelta(seconds=seconds), "team" if name else "", name))


def scheduler(**changes: Any) -> Any:
    return replace(KUBE_SCHEDULER, configuration=msgspec.structs.replace(CONFIGURATION, **changes))


def extender(**changes: Any) -> Any:
    return scheduler(extenders=(msgspec.structs.replace(EXTENDER, **changes),))


def test_a_register_that_cannot_be_read_is_told_with_the_reason() -> None:
    (problem,) = judge(judge_registers, nodes=(node(annotations={REGISTER: "[{"}),))
    assert (problem.object, REGISTER in problem.text) == (NODE, True)


def test_a_node_that_shall_have_cards_and_registered_none_is_an_error() -> None:
    assert told(judge(judge_registers, nodes=(node(labels={"gpu": "on"}),))) == [(ERROR, NODE)]


@pytest.mark.parametrize(("label", "found"), [("gpuloom", [(ERROR, NODE)]), ("on", [])])
def test_a_node_shall_have_cards_that_the_device_plugin_is_installed_for(label: str, found: Any) -> None:
    sets = (daemon_set("d", spec={"nodeSelector": {"gpu": "gpuloom"}}),)
    assert told(judge(judge_registers, nodes=(node(labels={"gpu": label}),), daemon_sets=sets)) == found


def test_a_node_with_one_of_several_labels_need_not_have_cards() -> None:
    sets = (daemon_set("d", spec={"nodeSelector": {"gpu": "on", "pool": "a"}}),)
    assert judge(judge_registers, nodes=(node(labels={"gpu": "on"}),), daemon_sets=sets) == []


def test_a_node_without_cards_is_fine() -> None:
    assert judge(judge_registers, nodes=(node(),)) == []


def test_fewer_shares_than_registered_betray_another_plugin() -> None:
    (problem,) = judge(judge_offers, nodes=(node(CARD, offered=1),))
    assert "offers 1 of nvidia.com/gpu, but its 1 registered cards are 10 shares" in problem.text


def test_shares_without_registered_cards_betray_another_plugin() -> None:
    assert told(judge(judge_offers, nodes=(node(offered=1),))) == [(ERROR, NODE)]


def test_unhealthy_cards_still_count_in_what_is_offered() -> None:
    assert judge(judge_offers, nodes=(node(CARD, allocatable=0),)) == []


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Requesting_2026-11-21 11:58:00", ERROR),
        ("Deleted_2026-11-21 11:58:00", ERROR),
        ("Requesting_soon", WARNING),
    ],
)
def test_a_node_that_offers_nothing_and_does_not_answer_is_told(text: str, severity: Severity) -> None:
    silent = node(CARD, allocatable=0, annotations={HANDSHAKE: text})
    assert told(judge(judge_handshakes, nodes=(silent,))) == [(severity, NODE)]


@pytest.mark.parametrize("text", ["Requesting_2026-11-21 11:59:30", "Reported 2026-11-21 11:00:00"])
def test_a_question_that_is_fresh_or_answered_is_fine(text: str) -> None:
    assert judge(judge_handshakes, nodes=(node(CARD, allocatable=0, annotations={HANDSHAKE: text}),)) == []


def test_a_node_that_offers_cards_need_not_answer() -> None:
    waiting = node(CARD, annotations={HANDSHAKE: "Requesting_2026-11-21 11:00:00"})
    assert judge(judge_handshakes, nodes=(waiting,)) == []


def test_a_lock_beyond_its_time_is_an_error_with_its_age() -> None:
    (problem,) = judge(judge_locks, nodes=(node(CARD, annotations={LOCK: lock(301)}),))
    assert (problem.severity, "pod team/p since 301 s" in problem.text) == (ERROR, True)


def test_the_installations_own_time_limit_counts() -> None:
    nodes = (node(CARD, annotations={LOCK: lock(301, "")}),)
    assert judge(judge_locks, nodes=nodes, flags=replace(FLAGS, lock_timeout_s=400.0)) == []


def test_a_lock_of_a_pod_that_is_gone_is_a_warning() -> None:
    assert told(judge(judge_locks, nodes=(node(CARD, annotations={LOCK: lock(20)}),))) == [(WARNING, NODE)]


def test_a_lock_of_a_pod_that_is_being_started_is_fine() -> None:
    owners = {("team", "p"): pod(node_name="n1")}
    assert judge(judge_locks, nodes=(node(CARD, annotations={LOCK: lock(20)}),), owners=owners) == []


def test_a_lock_beyond_its_time_of_a_pod_that_waits_for_its_plugin_is_the_nodes_fault() -> None:
    """trust T-08: nobody takes such a lock over."""
    owner = pod(node_name="n1")
    metadata = msgspec.structs.replace(owner.metadata, annotations={"hami.io/bind-phase": "allocating"})
    owners = {("team", "p"): msgspec.structs.replace(owner, metadata=metadata)}
    (problem,) = judge(judge_locks, nodes=(node(CARD, annotations={LOCK: lock(301)}),), owners=owners)
    assert (problem.severity, problem.fault) == (ERROR, Fault.MACHINE)
    assert "waits for the node's device plugin" in problem.text
    assert problem.remedy.endswith("kubectl -n team delete pod p")


def test_a_lock_that_cannot_be_read_wants_to_be_taken_away() -> None:
    (problem,) = judge(judge_locks, nodes=(node(CARD, annotations={LOCK: "yesterday"}),))
    assert problem.remedy == "kubectl annotate node n1 hami.io/mutex.lock-"


def test_a_scheduler_outside_of_pods_cannot_be_looked_at() -> None:
    with pytest.raises(UnseenError, match="see check scheduler"):
        judge(judge_kube_scheduler, kube_scheduler=None)


def test_a_configuration_that_cannot_be_read_is_told() -> None:
    broken = replace(KUBE_SCHEDULER, configuration=None, error="line 3")
    (problem,) = judge(judge_kube_scheduler, kube_scheduler=broken)
    assert "line 3" in problem.text


@pytest.mark.parametrize(
    ("version", "minor", "is_read"),
    [
        ("v1", 25, True),
        ("v1", 24, False),
        ("v1beta3", 28, True),
        ("v1beta3", 29, False),
        ("v1beta2", 27, True),
        ("v1beta2", 28, False),
        ("v1beta2", 0, True),
        ("v2", 0, False),
    ],
)
def test_each_version_of_the_configuration_is_read_by_some_kube_schedulers(
    version: str, minor: int, *, is_read: bool
) -> None:
    api_version = f"kubescheduler.config.k8s.io/{version}"
    problems = judge(judge_kube_scheduler, kube_scheduler=replace(scheduler(api_version=api_version), minor=minor))
    assert (problems == []) is is_read


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"url_prefix": "https://127.0.0.1:9398"}, "urlPrefix"),
        ({"url_prefix": "http://127.0.0.1:443"}, "urlPrefix"),
        ({"url_prefix": "http://127.0.0.1:9398/scheduler"}, "urlPrefix"),
        ({"filter_verb": ""}, "add gpuloom"),
        ({"bind_verb": ""}, "bindVerb"),
        ({"node_cache_capable": False}, "nodeCacheCapable"),
        ({"http_timeout": "5s"}, "httpTimeout"),
        ({"managed_resources": EXTENDER.managed_resources[1:]}, "ignoredByScheduler"),
        (
            {"managed_resources": tuple(msgspec.structs.replace(one, ignored_by_scheduler=False)
                                        for one in EXTENDER.managed_resources)},
            "ignoredByScheduler",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_extender_is_told_with_the_field(changes: dict[str, Any], word: str) -> None:
    problems = judge(judge_kube_scheduler, kube_scheduler=extender(**changes))
    assert [problem for problem in problems if word in problem.remedy]


@pytest.mark.parametrize(("verb", "words"), [("", ["prioritizeVerb"]), ("prioritize", [])])
def test_a_kube_scheduler_that_chooses_nodes_asks_for_scores(verb: str, words: list[str]) -> None:
    flags = replace(FLAGS, node_choice="scheduler")
    problems = judge(judge_kube_scheduler, kube_scheduler=extender(prioritize_verb=verb), flags=flags)
    assert [word for problem in problems for word in words if word in problem.remedy] == words
    assert {problem.severity for problem in problems} == ({WARNING} if words else set())


def test_a_kube_scheduler_that_does_not_ask_before_it_evicts_is_a_warning() -> None:
    (problem,) = judge(judge_kube_scheduler, kube_scheduler=extender(preempt_verb=""))
    assert (problem.severity, "preemptVerb" in problem.remedy) == (WARNING, True)


def test_a_vendor_that_may_not_be_there_at_all_is_only_a_warning() -> None:
    kept = tuple(one for one in EXTENDER.managed_resources if one.name.startswith("nvidia.com/"))
    problems = judge(judge_kube_scheduler, kube_scheduler=extender(managed_resources=kept))
    assert {problem.severity for problem in problems} == {WARNING}


def test_https_without_a_way_to_recognize_gpuloom_is_an_error() -> None:
    secure = extender(url_prefix="https://127.0.0.1:9398")
    (problem,) = judge(judge_kube_scheduler, kube_scheduler=secure, flags=replace(FLAGS, is_https=True))
    assert "tlsConfig" in problem.remedy


def test_a_profile_of_another_name_is_an_error() -> None:
    (problem,) = judge(judge_kube_scheduler, kube_scheduler=scheduler(profiles=()), flags=FLAGS)
    assert "'hami-scheduler'" in problem.text


def test_another_lease_than_gpuloom_follows_is_an_error() -> None:
    election = msgspec.structs.replace(CONFIGURATION.leader_election, resource_name="kube-scheduler")
    (problem,) = judge(judge_kube_scheduler, kube_scheduler=scheduler(leader_election=election))
    assert "its lease is gpu/kube-scheduler" in problem.text


def test_no_election_where_gpuloom_follows_one_is_an_error() -> None:
    election = msgspec.structs.replace(CONFIGURATION.leader_election, leader_elect=False)
    (problem,) = judge(judge_kube_scheduler, kube_scheduler=scheduler(leader_election=election))
    assert "elects no leader" in problem.text


def test_a_device_configuration_that_cannot_be_read_is_told() -> None:
    assert told(judge(judge_device_configuration, catalog_error="ConfigMap x: bad")) == [
        (ERROR, "device configuration")
    ]


def bound(*, age_s: int = 301, phase: str = "allocating", **facts: Any) -> Pod:
    """A pod that was bound so long ago to a node."""
    found = pod(node_name="n1", **facts)
    told = {"hami.io/vgpu-node": "n1", "hami.io/bind-phase": phase}
    told["hami.io/bind-time"] = str(int(NOW.timestamp()) - age_s)
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=told))


WITHOUT_LOCK = node(CARD, annotations={"gpuloom.io/serves": "NVIDIA;u"})


def test_a_pod_that_a_node_without_lock_does_not_start_is_the_nodes_fault() -> None:
    (problem,) = judge(judge_unserved, nodes=(WITHOUT_LOCK,), pods=(bound(),))
    assert (problem.severity, problem.fault) == (ERROR, Fault.MACHINE)
    assert "has not started pod team/p for 301 s" in problem.text
    assert problem.remedy.endswith("kubectl -n team delete pod p")


@pytest.mark.parametrize("facts", [{"age_s": 299}, {"phase": "success"}, {"started": "2026-11-21T11:00:00Z"}])
def test_a_pod_that_was_served_or_just_bound_is_fine(facts: Any) -> None:
    assert judge(judge_unserved, nodes=(WITHOUT_LOCK,), pods=(bound(**facts),)) == []


def test_on_a_node_with_locks_the_lock_tells() -> None:
    assert judge(judge_unserved, nodes=(node(CARD),), pods=(bound(),)) == []
