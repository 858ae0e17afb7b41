"""Faults of our own concern one object, not the process."""

import pytest

from gpuloom.scheduler.watch.skip import skip_on_error
from gpuloom.wire.objects import Node, ObjectMeta, Pod

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns"))


def test_an_object_that_is_taken_is_a_success() -> None:
    taken: list[Pod] = []
    assert skip_on_error(taken.append, POD)
    assert taken == [POD]


@pytest.mark.parametrize(("item", "name"), [(POD, "ns/p"), (Node(metadata=ObjectMeta(name="n1")), "n1")])
def test_an_object_that_we_fail_on_is_told_of_by_its_name(
    item: Pod | Node, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_item: Pod | Node) -> None:
        raise OverflowError("too large")

    assert not skip_on_error(fail, item)
    said = "".join(capsys.readouterr())
    assert f"object={name}" in said or name in said
    assert "too large" in said
