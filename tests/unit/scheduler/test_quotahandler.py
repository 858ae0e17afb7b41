"""Quotas that cannot be read, or not as a whole number (trust T-11), and those that are long or many (trust T-02)."""

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from gpuloom.engine.state.quotas import MOST_IN_NAMESPACE
from gpuloom.kube import Unreadable
from gpuloom.model.request_columns import UNLIMITED
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.watch.quotas import QuotaHandler
from gpuloom.wire.objects import ObjectMeta, Quantity, ResourceQuota, ResourceQuotaSpec

MEMORY = "limits.nvidia.com/gpumem"
META = ObjectMeta(name="q", namespace="ml")
UNREADABLE = Unreadable(META, msgspec.Raw(b"{}"), "wrong type")


class Scene:
    def __init__(self, **flags: Any) -> None:
        self.state = SchedulerState(SchedulerSettings(**flags))
        self.watch = QuotaHandler(
            self.state.cluster.quotas,
            self.state.waiting.capacity_freed,
            closes=self.state.settings.unreadable == "close",
        )

    def apply(self, memory: str, name: str = "q") -> None:
        body = {"metadata": {"name": name, "namespace": "ml"}, "spec": {"hard": {MEMORY: memory}}}
        self.watch.apply(msgspec.convert(body, ResourceQuota))

    def left(self, namespace: str = "ml") -> int:
        return self.state.headroom(namespace, self.state.settings.catalog["NVIDIA"]).memory_mib


@pytest.mark.parametrize(("memory", "left"), [("1500m", 1), ("4k", 4000), ("much", 0), ("500m", 0)])
def test_a_quota_allows_the_whole_number_below_and_nothing_if_it_is_no_number(memory: str, left: int) -> None:
    scene = Scene()
    scene.apply(memory)
    assert scene.left() == left


def test_as_in_hami_a_fraction_limits_nothing_if_so_set() -> None:
    scene = Scene(unreadable="ignore")
    scene.apply("1500m")
    assert scene.left() == UNLIMITED


def test_a_quota_that_cannot_be_read_any_more_counts_as_it_was() -> None:
    scene = Scene()
    scene.apply("4000")
    scene.watch.take_unreadable(UNREADABLE)
    assert scene.left() == 4000


def test_a_quota_that_could_never_be_read_allows_nothing_in_its_namespace() -> None:
    scene = Scene()
    scene.watch.take_unreadable(UNREADABLE)
    assert (scene.left(), scene.left("other")) == (0, UNLIMITED)


def test_a_quota_that_stands_unreadable_in_a_list_is_not_gone() -> None:
    scene = Scene()
    scene.apply("4000")
    scene.watch.replace([], [UNREADABLE])
    assert scene.left() == 4000


def test_the_namespace_opens_when_the_unreadable_quota_is_deleted() -> None:
    scene = Scene()
    scene.watch.take_unreadable(UNREADABLE)
    scene.watch.delete(ResourceQuota(metadata=META))
    assert scene.left() == UNLIMITED


def test_of_a_quota_nothing_is_kept_that_limits_no_cards() -> None:
    scene = Scene()
    hard: dict[str, Quantity] = {f"limits.x.io/{number}": "1" for number in range(1000)}
    long = ObjectMeta(name="q", namespace="ml", annotations={"text": "x" * 1000}, labels={"text": "x"})
    scene.watch.apply(ResourceQuota(long, ResourceQuotaSpec({**hard, MEMORY: "4000"})))
    assert scene.watch.objects == [ResourceQuota(META, ResourceQuotaSpec({MEMORY: "4000"}))]


def test_that_a_namespace_has_too_many_quotas_is_told_once() -> None:
    scene = Scene()
    with capture_logs() as told:
        for number in range(MOST_IN_NAMESPACE + 2):
            scene.apply("4000", f"q{number}")
    assert [line["namespace"] for line in told if line["log_level"] == "warning"] == ["ml"]
