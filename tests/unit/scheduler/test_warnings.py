"""What the webhook warns about: what is allowed and hardly meant."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpuloom.scheduler.admission.review import add_warnings, review_pod
from gpuloom.scheduler.admission.unknown import MOST_OTHERS
from gpuloom.scheduler.admission.warn import LONGEST_WARNING, MOST_WARNINGS, Cluster, Offer
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.admission import Review, Verdict, encode_review

SETTINGS = SchedulerSettings(scheduler_name="hami-scheduler")
OFFERED = "nvidia.com/mig-1g.5gb"
CLUSTER = Cluster(lambda name: name == OFFERED, lambda _word: Offer(memory_mib=24_000, cores=100, cards_of_a_node=4))


def warn(
    limits: Mapping[str, object], annotations: Mapping[str, str] | None = None, cluster: Cluster = CLUSTER, **spec: Any
) -> tuple[str, ...]:
    container = {"name": "main", "resources": {"limits": dict(limits)}}
    value = {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": {"containers": [container], **spec}}
    one = Review("admission.k8s.io/v1", "u", "ns", msgspec.json.encode(value))
    return tuple(add_warnings(one, review_pod(one, SETTINGS), SETTINGS, cluster).warnings)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nvidia.com/gpumemory", "nvidia.com/gpumem"),
        ("nvidia.com/gpumen", "nvidia.com/gpumem"),
        ("nvidia.com/GPU", "nvidia.com/gpu"),
        ("nvidia.com/gpucore", "nvidia.com/gpucores"),
        ("nvidia.com/gpumem-percent", "nvidia.com/gpumem-percentage"),
        ("nvida.com/gpumem", "nvidia.com/gpumem"),
        ("nvidia.co/gpumemory", "nvidia.com/gpumem"),
        ("aws.amazn.com/neuroncore", "aws.amazon.com/neuroncore"),
    ],
)
def test_a_mistyped_resource_is_named_with_the_nearest_right_one(name: str, meant: str) -> None:
    (told,) = warn({"nvidia.com/gpu": 1, name: 1})
    assert told == (
        f"container main: no node has {name}, and gpuloom knows no such resource, so the pod will stay pending; "
        f"did you mean {meant}?"
    )


def test_a_resource_that_is_like_none_is_named_alone() -> None:
    (told,) = warn({"nvidia.com/quantum": 1})
    assert told.endswith("so the pod will stay pending")


@pytest.mark.parametrize("name", [OFFERED, "example.com/fpga", "nvida.com/quantum", "cpu", "nvidia.com/gpumem"])
def test_a_resource_that_somebody_serves_or_that_is_nobodys_here_is_no_doubt(name: str) -> None:
    assert warn({"nvidia.com/gpu": 1, name: 100}) == ()


def test_a_mistyped_prefix_is_named_where_nothing_is_spelled_right() -> None:
    told = warn({"nvida.com/gpu": 1, "nvida.com/gpumem": 3000})
    assert [one.rpartition("; ")[2] for one in told] == [
        "did you mean nvidia.com/gpu?",
        "did you mean nvidia.com/gpumem?",
    ]


def test_of_very_many_names_of_other_prefixes_only_the_first_are_compared() -> None:
    others = {f"example-{number}.com/gpu": 1 for number in range(MOST_OTHERS)}
    assert warn({"nvidia.com/gpu": 1, **others, "nvida.com/gpumem": 1}) == ()


def test_a_pod_of_another_scheduler_is_not_our_doubt() -> None:
    assert warn({"nvidia.com/gpumemory": 1}, schedulerName="other") == ()


def test_a_pod_that_is_denied_is_not_warned_of_as_well() -> None:
    assert warn({"nvidia.com/gpu": 1, "nvidia.com/gpumem": -5, "nvidia.com/gpumemory": 1}) == ()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            {"nvidia.com/gpucores": 150},
            "gpucores 150 is more than one card has: it is in per cent of a card; it gets 100, the card alone",
        ),
        ({"nvidia.com/gpumem": 30_000}, "asks for 30,000 MiB of one card; the largest card of the cluster has 24,000"),
        ({"nvidia.com/gpu": 5}, "nvidia.com/gpu 5 is more cards than any node has: the largest has 4"),
        (
            {"nvidia.com/gpumem": 100, "nvidia.com/gpumem-percentage": 5},
            "contradict each other: nvidia.com/gpumem counts",
        ),
    ],
)
def test_more_than_there_is_of_anything_is_told(limits: dict[str, int], words: str) -> None:
    (told,) = warn({"nvidia.com/gpu": 1, **limits})
    assert told.startswith("container main: ")
    assert words in told


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"nvidia.com/gpucores": 130}, "nvidia.com/gpucores 130 is more than one card has"),
        ({"nvidia.com/gpumem": 60_000}, "asks for 60,000 MiB of one card"),
    ],
)
def test_more_than_there_is_of_a_card_that_nobody_counted_is_told(limits: dict[str, int], words: str) -> None:
    (told,) = warn(limits)
    assert words in told


def test_an_amount_of_cards_that_nobody_asks_for_is_told() -> None:
    told = warn({"nvidia.com/gpu": 1, "amd.com/gpumem": 3000})
    assert told == ("container main: amd.com/gpumem counts for nothing without amd.com/gpu",)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"cpu": "500"}, "the pod asks for 500 CPUs; the largest node with cards has 64 CPUs"),
        (
            {"memory": "2Gi"},
            "the pod asks for 2,048 MiB of memory; the largest node with cards has 1,024 MiB of memory",
        ),
    ],
)
def test_more_than_the_largest_node_has_is_told(limits: dict[str, str], words: str) -> None:
    cluster = replace(CLUSTER, most=lambda name, _asked: {"cpu": 64_000, "memory": 2**30}[name])
    assert warn({"nvidia.com/gpu": 1, **limits}, cluster=cluster) == (words,)
    assert warn({"nvidia.com/gpu": 1, "cpu": 64, "memory": "1Gi"}, cluster=cluster) == ()
    assert warn(limits, cluster=cluster) == ()


@pytest.mark.parametrize("name", ["nvidia.com/gpumem", "nvidia.com/gpumem-percentage"])
def test_no_memory_is_told_to_be_all_of_it(name: str) -> None:
    told = warn({"nvidia.com/gpu": 1, name: 0})
    assert told == (f"container main: {name} 0 counts as not given: it gets all memory of each card",)


@pytest.mark.parametrize(
    "limits",
    [
        {"nvidia.com/gpu": 0, "nvidia.com/gpumem": 0},
        {"nvidia.com/gpu": 1},
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 0, "nvidia.com/gpumem-percentage": 50},
    ],
    ids=["no card", "none named", "a percentage"],
)
def test_no_memory_beside_what_counts_is_no_doubt(limits: dict[str, int]) -> None:
    assert warn(limits) == ()


def test_all_of_the_largest_there_is_is_no_doubt() -> None:
    assert warn({"nvidia.com/gpu": 4, "nvidia.com/gpumem": 24_000, "nvidia.com/gpucores": 100}) == ()


def test_without_any_card_nothing_is_too_much() -> None:
    assert warn({"nvidia.com/gpu": 50, "nvidia.com/gpumem": 10**6}, cluster=Cluster()) == ()


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"hami.io/node-scheduler-policy": "binpak"}, "counts as binpack; did you mean binpack?"),
        ({"hami.io/gpu-scheduler-policy": "numa,spred"}, "'spred' is no policy and counts as spread"),
        ({"hami.io/device-scoring-weights": "slot=1"}, "the pod cannot be placed: invalid"),
        ({"nvidia.com/vgpu-mode": "migs"}, "'migs' is no mode of cards: one of hami-core, mig, mps"),
        ({"nvidia.com/numa-bind": "yes"}, "'yes' is neither true nor false and counts as false"),
        ({"nvidia.com/use-gputype": "A100", "nvidia.com/nouse-gputype": "a100"}, "contradict each other"),
        ({"nvidia.com/use-gpuuuid": "GPU-1,GPU-2", "nvidia.com/nouse-gpuuuid": "GPU-2,GPU-1"}, "(gpu-1, gpu-2)"),
    ],
)
def test_a_word_that_means_nothing_is_told(annotations: dict[str, str], words: str) -> None:
    (told,) = warn({"nvidia.com/gpu": 1}, annotations)
    assert words in told


@pytest.mark.parametrize(
    "annotations",
    [
        {"hami.io/node-scheduler-policy": "first-fit", "hami.io/gpu-scheduler-policy": "mutex,topology-aware"},
        {"hami.io/device-scoring-weights": "slot=1,core=2,memory=3"},
        {"nvidia.com/vgpu-mode": "mig", "nvidia.com/numa-bind": "true"},
        {"nvidia.com/use-gputype": "A100,L4", "nvidia.com/nouse-gputype": "A100"},
        {"nvidia.com/nouse-gputype": "A100"},
        {"example.com/policy": "binpak"},
    ],
)
def test_words_that_mean_something_are_no_doubt(annotations: dict[str, str]) -> None:
    assert warn({"nvidia.com/gpu": 1}, annotations) == ()


def test_a_pod_without_cards_may_write_what_it_likes() -> None:
    assert warn({"cpu": "1"}, {"hami.io/node-scheduler-policy": "binpak"}) == ()


def test_warnings_are_few_and_short() -> None:
    told = warn({f"nvidia.com/{number}{'x' * 300}": 1 for number in range(50)})
    assert len(told) == MOST_WARNINGS
    assert max(map(len, told)) <= LONGEST_WARNING
    assert all("so the pod will stay pending" in one for one in told)


def test_the_reply_carries_warnings_and_lacks_the_field_without_any() -> None:
    plain = Verdict(allowed=True)
    doubtful = msgspec.json.decode(encode_review("v1", "u", replace(plain, warnings=("a",))))
    assert doubtful["response"]["warnings"] == ["a"]
    assert "warnings" not in msgspec.json.decode(encode_review("v1", "u", plain))["response"]


def test_nodes_are_asked_about_so_many_names_and_no_more() -> None:
    asked: list[str] = []

    def is_offered(name: str) -> bool:
        asked.append(name)
        return False

    warn({f"nvidia.com/x{number}": 1 for number in range(2_000)}, cluster=Cluster(is_offered))
    assert len(asked) == MOST_WARNINGS


def test_a_name_that_somebody_serves_is_asked_about_once() -> None:
    asked: list[str] = []

    def is_offered(name: str) -> bool:
        asked.append(name)
        return True

    again = {"name": "again", "resources": {"limits": {OFFERED: 1}}}
    warn({OFFERED: 1}, cluster=Cluster(is_offered), initContainers=[again] * 50)
    assert asked == [OFFERED]
