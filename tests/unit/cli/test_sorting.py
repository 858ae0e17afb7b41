import re

import msgspec
import pytest

from gpuloom.cli.asking.sorting import sort_items
from gpuloom.cli.asking.top import Used
from gpuloom.cli.commands import build_app
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.engine.explanation.values import Amount, PodName
from gpuloom.web.views.values import (
    CardView,
    LockView,
    ModelView,
    NodeView,
    PendingView,
    PodView,
    QuotaView,
    WorkloadView,
)


def node(name: str, used: int = 0, *models: str, locked_by: str = "") -> NodeView:
    amount = Amount(used=used, total=100)
    lock = LockView(pod=PodName(namespace="n", name=locked_by)) if locked_by else None
    return NodeView(name=name, shares=amount, memory=amount, cores=amount, models=models, lock=lock)


NODES = [node("n10", 5, "b"), node("n9", 7, "a", "z", locked_by="p"), node("m", 6)]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("", ["n10", "n9", "m"]),
        (".name", ["m", "n9", "n10"]),
        ("name", ["m", "n9", "n10"]),
        ("{.memory.used}", ["n10", "m", "n9"]),
        (".memory.free", ["n9", "m", "n10"]),
        (".models[0]", ["m", "n9", "n10"]),
        (".models[1]", ["n10", "m", "n9"]),
        (".lock.pod.name", ["n10", "m", "n9"]),
        (".unhealthy", ["n10", "n9", "m"]),
    ],
)
def test_items_are_sorted_by_a_field_as_kubectl_does(path: str, names: list[str]) -> None:
    assert [one.name for one in sort_items(NODES, path)] == names


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".nme", "there is no field 'nme'; there are name, cards,"),
        (".memory", ".memory.used or .memory.total"),
        ("{.memory}", ".memory.used or .memory.total"),
        (".models", ".models[0]"),
        (".name.x", "nothing is below what it names"),
        ("..name", "is no field"),
        (".", "is no field"),
        ("{.name", "is no field"),
    ],
)
def test_what_cannot_be_sorted_by_is_said_with_what_can(path: str, words: str) -> None:
    with pytest.raises(CommandError) as raised:
        sort_items(NODES, path)
    assert words in str(raised.value)
    assert raised.value.code is ExitCode.USAGE


NOTHING, POD = Amount(used=0, total=100), PodName(namespace="n", name="p")
LISTED: dict[str, list[msgspec.Struct]] = {
    "top": [
        ModelView(model="m", cards=1, nodes=1, shares=NOTHING, memory=NOTHING, cores=NOTHING),
        Used("n", "n", "m", NOTHING, NOTHING),
    ],
    "nodes": [node("n")],
    "cards": [CardView(node="n", uuid="GPU-a", shares=NOTHING, memory=NOTHING, cores=NOTHING)],
    "pods": [PodView(pod=POD, node="n", standing="bound")],
    "pending": [PendingView(pod=POD)],
    "quota": [QuotaView(namespace="n", resource="r", used=1)],
    "workload": [
        WorkloadView(part=1.0, vendor="", cards=0, memory_mib=0, memory_percentage=0, cores=0, cpu_milli=100),
    ],
}


def list_sorting() -> dict[str, str]:
    """Give what each command's help says of --sort-by."""
    app = build_app()
    return {
        command: str(argument.parameter.help)
        for command in app
        if not command.startswith("-")
        for argument in app[command].assemble_argument_collection(parse_docstring=True)
        if "--sort-by" in argument.names
    }


def test_every_list_tells_a_field_to_sort_by_that_its_items_have() -> None:
    told = list_sorting()
    assert told.keys() == LISTED.keys()
    for command, text in told.items():
        found = re.search(r"such as (\S+)\.$", text)
        assert found, command
        for item in LISTED[command]:
            assert sort_items([item], found[1]) == [item], command
