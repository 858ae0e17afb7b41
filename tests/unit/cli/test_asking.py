from typing import Any

import pytest
from msgspec.structs import replace

from gpuloom.cli.asking.running import choose_node, choose_pod
from gpuloom.cli.asking.tables import PENDING, PODS, draw_bar, format_age, format_share
from gpuloom.cli.asking.usage import COMPONENT, choose_monitors, read_metrics
from gpuloom.cli.asking.utilization import CardUtilization, read_shown, sum_uses
from gpuloom.cli.outcomes import CommandError
from gpuloom.client.errors import AskingError, MisusedError, UnansweredError, UnknownObjectError
from gpuloom.client.names import choose_card
from gpuloom.client.served import ServedReader
from gpuloom.engine.explanation.values import Amount, Given, PodName
from gpuloom.web.views.values import CardView, NodeDetail, NodeView, NominationView, PendingView, PodView, UsedView
from gpuloom.wire.objects import ObjectMeta, Pod, PodSpec

METRICS = """\
# HELP hami_host_gpu_memory_used_bytes Memory in use
# TYPE hami_host_gpu_memory_used_bytes gauge
hami_host_gpu_memory_used_bytes{node="n",device_index="0",device_uuid="GPU-a",device_type="L4"} 1.073741824e+09
hami_host_gpu_memory_used_bytes{node="n",device_index="1",device_uuid="GPU-b",device_type="L4"} 0
# HELP hami_host_gpu_utilization_ratio How busy
# TYPE hami_host_gpu_utilization_ratio gauge
hami_host_gpu_utilization_ratio{node="n",device_index="0",device_uuid="GPU-a",device_type="L4"} 37
"""


def test_of_a_pod_for_which_room_is_being_made_the_list_says_so() -> None:
    pod = PodName(namespace="default", name="urgent")
    waiting = PendingView(pod=pod, headline="fits on none of 3 nodes")
    (why,) = (column for column in PENDING.columns if column.heading == "WHY")
    assert why.text(waiting) == "fits on none of 3 nodes"
    promised = replace(waiting, nomination=NominationView(pod=pod, node="node-c", cards=("GPU-a",)))
    assert why.text(promised) == "room is being made for it on node-c; fits on none of 3 nodes"


def test_of_a_pod_whose_room_a_more_important_one_has_the_list_does_not_say_that_it_is_made() -> None:
    pod = PodName(namespace="default", name="urgent")
    waiting = PendingView(
        pod=pod, headline="fits on none of 3 nodes", nomination=NominationView(pod=pod, node="node-c")
    )
    (why,) = (column for column in PENDING.columns if column.heading == "WHY")
    assert why.text(waiting) == "fits on none of 3 nodes"


def test_parts_of_one_card_count_as_one_card() -> None:
    shares = tuple(
        Given(container="main", uuid=uuid, memory_mib=1, cores=1) for uuid in ("GPU-a[1-1]", "GPU-a[1-2]", "GPU-b")
    )
    pod = PodView(pod=PodName(namespace="default", name="p"), node="n1", standing="bound", shares=shares)
    (column,) = [column for column in PODS.columns if column.heading == "CARDS"]
    assert column.text(pod) == "2"


def test_what_is_used_is_read_from_a_monitors_metrics() -> None:
    assert read_metrics(METRICS) == {"GPU-a": CardUtilization(1024, 37), "GPU-b": CardUtilization(0, None)}


@pytest.mark.parametrize("text", ["", "not metrics {", "\x00"])
def test_metrics_that_cannot_be_read_tell_nothing(text: str) -> None:
    assert read_metrics(text) == {}


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-Inf"])
def test_figures_that_are_no_amounts_are_not_known(number: str) -> None:
    assert read_metrics(METRICS.replace(" 37", f" {number}"))["GPU-a"] == CardUtilization(1024, None)
    assert "GPU-a" not in read_metrics(METRICS.replace("1.073741824e+09", number))


def pod_of(component: str, node: str) -> Pod:
    metadata = ObjectMeta(name=f"{component}-{node}", labels={COMPONENT: component})
    return Pod(metadata=metadata, spec=PodSpec(node_name=node))


def test_a_device_plugin_is_asked_only_where_no_monitor_has_a_pod_of_its_own() -> None:
    pods = [pod_of("hami-device-plugin", "a"), pod_of("hami-monitor", "a"), pod_of("hami-device-plugin", "b")]
    assert [pod.name for pod in choose_monitors(pods)] == ["hami-monitor-a", "hami-device-plugin-b"]


def test_the_use_of_cards_is_summed_and_averaged() -> None:
    assert sum_uses([CardUtilization(1000, 40), CardUtilization(500, 20)]) == CardUtilization(1500, 30)
    assert sum_uses([]) is None


def test_what_is_not_known_of_one_card_is_not_added_up():
    assert sum_uses([CardUtilization(1000, None), CardUtilization(None, None)]) == CardUtilization(1000, None)


def test_a_card_of_which_the_pages_know_nothing_is_not_shown_as_unused():
    nothing = Amount(used=0, total=100)
    card = CardView(node="n", uuid="GPU-a", shares=nothing, memory=nothing, cores=nothing, used=UsedView())
    assert read_shown(card) is None
    assert read_shown(replace(card, used=UsedView(busy_percent=7))) == CardUtilization(None, 7)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (45, "45s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (2e5, "2d")],
)
def test_ages_are_written_as_kubectl_does(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


@pytest.mark.parametrize(
    ("used", "text"), [(0, ".........."), (1, "#........."), (999, "#########."), (1000, "#" * 10)]
)
def test_a_bar_shows_whatever_is_used_and_is_full_only_when_nothing_is_left(used: int, text: str) -> None:
    assert draw_bar(Amount(used=used, total=1000)) == text


def test_a_share_of_nothing_is_no_error() -> None:
    assert format_share(Amount(used=0, total=0)) == "0/0 (0%)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("p", ("mine", "p")), ("pod/p", ("mine", "p")), ("po/p", ("mine", "p")), ("other/p", ("other", "p"))],
)
def test_pods_are_named_as_with_kubectl(text: str, expected: tuple[str, str]) -> None:
    assert choose_pod(text, "mine") == expected


@pytest.mark.parametrize("text", ["", "a/b/c", "other/"])
def test_what_names_no_pod_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is no pod"):
        choose_pod(text, "mine")


@pytest.mark.parametrize("text", ["n1", "node/n1", "nodes/n1", "no/n1"])
def test_nodes_are_named_as_with_kubectl(text: str) -> None:
    assert choose_node(text) == "n1"


@pytest.mark.parametrize("text", ["a/b", "node/", "node/a/b", "pod/a"])
def test_what_names_no_node_is_refused_with_what_to_give(text: str) -> None:
    with pytest.raises(CommandError, match="is no node: give NODE or node/NODE; gpuloom nodes shows them"):
        choose_node(text)


async def read_node(name: str) -> NodeDetail:
    """Show a node with two NVIDIA cards and one of another vendor, which counts its own."""
    nothing = Amount(used=0, total=100)
    places = {"GPU-a": 0, "GPU-b": 1, "other-a": 0}
    cards = [
        CardView(node=name, uuid=uuid, index=index, shares=nothing, memory=nothing, cores=nothing)
        for uuid, index in places.items()
    ]
    return NodeDetail(node=NodeView(name=name, shares=nothing, memory=nothing, cores=nothing), cards=tuple(cards))


@pytest.mark.parametrize(
    ("text", "uuid"), [("GPU-", "GPU-"), ("card/GPU-b", "GPU-b"), ("cards/GPU-b", "GPU-b"), ("n1/1", "GPU-b")]
)
async def test_cards_are_named_as_lists_print_them(text: str, uuid: str) -> None:
    assert await choose_card(text, read_node) == uuid


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            "a/b/c",
            MisusedError,
            "'a/b/c' is no card: give its UUID or the beginning of it, card/UUID or NODE/INDEX; see gpuloom",
        ),
        ("card/", MisusedError, "'card/' is no card: give"),
        ("n1/GPU-a", MisusedError, "'n1/GPU-a' is no card: give"),
        ("n1/7", UnknownObjectError, "node n1 has no card with index 7: see gpuloom cards"),
        ("n1/0", MisusedError, "node n1 has several cards with index 0 (GPU-a, other-a): give the UUID of one"),
    ],
)
async def test_what_names_no_card_is_refused_with_what_to_give(text: str, kind: type[AskingError], words: str) -> None:
    with pytest.raises(kind) as raised:
        await choose_card(text, read_node)
    assert words in str(raised.value)


class Odd:
    """A client of a scheduler of another version."""

    async def call(self, *_: Any, **__: Any) -> bytes:
        return b'{"items":[{"name":1}]}'


async def test_a_list_of_another_version_is_told_in_one_line() -> None:
    client: Any = Odd()
    with pytest.raises(UnansweredError, match="it may be of another version"):
        await ServedReader(client, "default", "s").nodes()
