"""The scheduler as it is, told about objects and asked by bodies that are not what they should be.

A recording's player is that scheduler without a network. Whatever it was told before, the pod of somebody else must get
its card: each target ends with that.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from typing import Any

import msgspec
from fuzz.seeds import dump, give_calls, give_objects, give_recordings
from fuzz.target import Target
from prometheus_client import CollectorRegistry

from gpuloom.engine.state.budgets import Budgets
from gpuloom.scheduler.admission.review import review_pod
from gpuloom.scheduler.metrics.exposition import write_exposition
from gpuloom.scheduler.metrics.process import list_series
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.recording.flags import read_settings
from gpuloom.scheduler.recording.lines import (
    AddedLine,
    AnyLine,
    BindLine,
    DeletedLine,
    FilterLine,
    ModifiedLine,
    ReconcileLine,
    decode_line,
)
from gpuloom.scheduler.recording.player import Player
from gpuloom.scheduler.recording.replayclock import ReplayClock
from gpuloom.scheduler.recording.replayedprocess import ReplayedProcess
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.admission import Verdict, decode_review, encode_review
from gpuloom.wire.budgets import DisruptionBudget
from gpuloom.wire.depth import BAD_JSON, decode
from gpuloom.wire.errors import WireError

_CARD = '[{"id":"GPU-1","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A10","mode":"hami-core","health":true}]'
_OTHER_CARD = _CARD.replace("GPU-1", "GPU-2")
_CALM = "calm"
"""A node that nobody but these words speaks of."""


def _node(name: str, register: str) -> msgspec.Raw:
    metadata = {"name": name, "annotations": {"hami.io/node-nvidia-register": register}}
    status = {"allocatable": {"nvidia.com/gpu": "10"}}
    return msgspec.Raw(dump({"kind": "Node", "metadata": metadata, "status": status}))


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10"}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    metadata = {"name": name, "namespace": "somebody", "uid": f"uid-{name}"}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


_BEGINNING: tuple[AnyLine, ...] = (
    AddedLine(object=_node("a", _CARD)),
    AddedLine(object=_node(_CALM, _OTHER_CARD)),
    ReconcileLine(),
)
_LAST_ASKED = FilterLine(id="last", args=msgspec.Raw(dump({"Pod": _pod("last"), "NodeNames": [_CALM]})))


class Stage:
    """A scheduler with two nodes."""

    def __init__(self) -> None:
        self._loop = _make_loop()
        self._player = Player(ReplayedProcess(_make_settings(), ReplayClock()))
        for line in _BEGINNING:
            self.play(line)

    @property
    def parts(self) -> Parts:
        """What the scheduler is made of."""
        return self._player.process.parts

    def play(self, line: AnyLine) -> dict[str, Any] | None:
        """Play a line. Raise LineError where it says that it cannot be used."""
        return self._loop.run_until_complete(self._player.play(line))

    def end(self) -> None:
        """Look at everything that a scheduler shows; see that somebody else's pod gets a card."""
        self.show()
        answer = self.play(_LAST_ASKED)
        if answer is None or answer["result"]["NodeNames"] != [_CALM]:
            raise AssertionError(f"somebody else's pod got no card: {answer}")

    def show(self) -> None:
        """Write all metrics."""
        self._loop.run_until_complete(_drain(write_exposition(list_series(self.parts), CollectorRegistry())))


@lru_cache(1)
def _make_settings() -> SchedulerSettings:
    return read_settings({"scheduler-name": "hami-scheduler"}, None)


async def _drain(pages: AsyncIterator[bytes]) -> None:
    async for _ in pages:
        pass


@lru_cache(1)
def _make_loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _read_object(data: bytes) -> None:
    """Show an object as a watch does, new, changed and gone."""
    stage, raw = Stage(), msgspec.Raw(data)
    for line in (AddedLine(object=raw), ReconcileLine(), ModifiedLine(object=raw), ReconcileLine()):
        try:
            stage.play(line)
        except LineError:
            return
    stage.show()
    stage.play(DeletedLine(object=raw))
    stage.end()


def _read_review(data: bytes) -> None:
    """Answer as the webhook's route does."""
    try:
        review = decode_review(data)
    except WireError as error:
        encode_review("admission.k8s.io/v1", "", Verdict(allowed=False, code=400, message=str(error)))
    else:
        encode_review(review.api_version, review.uid, review_pod(review, _make_settings()))


def _read_filter(data: bytes) -> None:
    stage = Stage()
    stage.play(FilterLine(id="1", args=msgspec.Raw(data)))
    stage.show()


def _read_bind(data: bytes) -> None:
    stage = Stage()
    stage.play(FilterLine(id="1", args=msgspec.Raw(dump({"Pod": _pod("first"), "NodeNames": ["a"]}))))
    stage.play(AddedLine(object=msgspec.Raw(dump(_pod("first")))))
    stage.play(BindLine(id="2", args=msgspec.Raw(data)))
    stage.end()


def _read_recording(data: bytes) -> None:
    """Play a recording; a line that cannot be used ends it, as it does for whoever plays one."""
    loop, player = _make_loop(), Player()
    try:
        for text in data.splitlines():
            if text.strip():
                loop.run_until_complete(player.play(decode_line(text)))
    except LineError:
        return


def _read_budget(data: bytes) -> None:
    """Read a PodDisruptionBudget and ask it about a pod; when it is gone, nothing of it is left."""
    try:
        budget = decode(data, DisruptionBudget)
    except BAD_JSON:
        return
    budgets = Budgets()
    budgets.apply(budget)
    budgets.protecting(budget.namespace, "p", {"app": "web"})
    budgets.delete(budget.namespace, budget.name)
    if budgets != Budgets():
        raise AssertionError(f"something of {budget.name!r} is left")


def _give_budgets() -> Iterator[bytes]:
    expressions = [{"key": "app", "operator": operator, "values": ["web"]} for operator in ("In", "NotIn", "Exists")]
    for selector in ({"matchLabels": {"app": "web"}}, {}, None, {"matchExpressions": expressions}):
        status = {"disruptionsAllowed": 1, "disruptedPods": {"q": "2026-01-02T03:04:05Z"}}
        yield dump({"metadata": {"name": "b", "namespace": "ns"}, "spec": {"selector": selector}, "status": status})


TARGETS = (
    Target("pod", _read_object, "json", lambda: give_objects("Pod"), us_per_byte=100.0),
    Target("node", _read_object, "json", lambda: give_objects("Node"), us_per_byte=100.0),
    Target("quota", _read_object, "json", lambda: give_objects("ResourceQuota"), us_per_byte=100.0),
    Target("budget", _read_budget, "json", _give_budgets, us_per_byte=10.0),
    Target("review", _read_review, "json", lambda: give_calls("REVIEW", "review"), us_per_byte=100.0),
    Target("filter", _read_filter, "json", lambda: give_calls("FILTER", "args"), us_per_byte=100.0),
    Target("bind", _read_bind, "json", lambda: give_calls("BIND", "args"), us_per_byte=100.0),
    Target("recording", _read_recording, "json", give_recordings, us_per_byte=200.0),
)
