import pytest

from gpuloom.cli.asking.sorting import sort_items
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.engine.explanation.values import Amount, PodName
from gpuloom.web.views.values import LockView, NodeView


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
