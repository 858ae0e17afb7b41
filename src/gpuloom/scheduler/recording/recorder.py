"""From the running process to lines: facts when they are applied, calls with their answers (binding 8)."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.engine.state.nominations import Nomination
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.kube import LEASES, NODES, PODS, RESOURCE_QUOTAS
from gpuloom.scheduler.bind.verb import BindError
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.filter.verb import FilterVerb
from gpuloom.scheduler.observer import BindCall, FilterCall, PrioritizeCall, ProcessObserver, ReviewCall
from gpuloom.scheduler.pods.plugins import is_plugin
from gpuloom.scheduler.recording import answers
from gpuloom.scheduler.recording.calls import write_bind_args, write_filter_args, write_review
from gpuloom.scheduler.recording.header import (
    JsonLine,
    fact_line,
    header_lines,
    nomination_line,
    outlook_line,
    write_time,
)
from gpuloom.scheduler.recording.liveclient import RecordedCall, current_call
from gpuloom.scheduler.recording.projection import Projection
from gpuloom.scheduler.recording.writer import RecordingWriter
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.admission import Review, Verdict
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import BindArgs, BindResult, FilterArgs, FilterResult, HostPriority
from gpuloom.wire.objects import KubeObject, ObjectMeta, Pod

_Key = tuple[str, str, str, str]
"""Kind, namespace, name and UID: what has the name of something that is gone is not the same."""


class ProcessRecorder(ProcessObserver):
    """Observes one process, and gives its lines to the writer of its recording."""

    takes_lists = True

    def __init__(self, writer: RecordingWriter, state: SchedulerState, clocks: Clocks) -> None:
        self._writer = writer
        self._state = state
        self._clocks = clocks
        self._projection = Projection(state.settings)
        # The hash of what was last written of an object: most changes of nodes are none for us.
        self._written: dict[_Key, tuple[int, KubeObject]] = {}
        self._calls = 0
        writer.begin = self._begin

    def on_list(self, kind: str, items: Iterable[KubeObject], unreadable: Iterable[ObjectMeta] = ()) -> None:
        """Write all objects of a kind that are new or different, and those that are gone."""
        listed = {_key_of(kind, item.metadata): item for item in items}
        there = {*listed, *(_key_of(kind, metadata) for metadata in unreadable)}
        for key, (_, known) in list(self._written.items()):
            if key[0] == kind and key not in there:
                self.on_change(kind, known, is_gone=True)
        for item in listed.values():
            self.on_change(kind, item)

    def on_change(self, kind: str, item: KubeObject, *, is_gone: bool = False) -> None:
        """Write one object if what decisions depend on is different from before."""
        key = _key_of(kind, item.metadata)
        before = self._written.pop(key, None)
        if before is None and isinstance(item, Pod) and not self._concerns_us(item):
            return
        projected = self._projection.project(item)
        if is_gone:
            self._write(fact_line("DELETED", kind, projected))
            return
        digest = hash(msgspec.json.encode(projected))
        self._written[key] = digest, item
        if before is not None and before[0] == digest:
            return
        self._write(fact_line("MODIFIED" if before else "ADDED", kind, projected))
        if kind == NODES.kind:
            # The live process looks at a node as soon as it changes, a replay only when told.
            self._write({"type": "RECONCILE", "nodes": [item.name]})

    def on_resync(self) -> None:
        """Write that all nodes are looked at."""
        self._write({"type": "RECONCILE"})

    def on_forgotten(self, uid: str, why: str) -> None:
        """Write that a timer ended a reservation."""
        self._write({"type": "FORGOTTEN", "uid": uid, "why": why})

    def on_moved(self, uid: str, node: str) -> None:
        """Write that a Bind moved its pod's reservation; its own line comes when it has waited."""
        self._write({"type": "MOVED", "uid": uid, "node": node})

    def on_nominated(self, nomination: Nomination) -> None:
        """Write that room is being made for a pod."""
        self._write(nomination_line(nomination))

    def on_nomination_ended(self, uid: str) -> None:
        """Write that a nomination is over."""
        self._write({"type": "NOMINATION_ENDED", "uid": uid})

    def on_outlook(self, mix: PodMix | None, cpu: Mapping[str, HostCpu | None]) -> None:
        """Write what the policy ``fragmentation`` looks at beside cards, as far as it is another one."""
        self._write(outlook_line(mix, cpu.items()))

    def wrap_filter(self, verb: FilterVerb) -> FilterCall:
        """Record the filter call."""

        async def filter_recorded(args: FilterArgs) -> FilterResult:
            written = write_filter_args(args, self._projection)
            with self._calling() as call:
                result = await verb.filter(args)
            answer = answers.filtered(result, verb.patch_of(args, result), call.effects)
            if written["Nodes"] is not None and answer["result"]["Nodes"] is not None:
                _cut_reply(answer["result"], written["Nodes"], is_echo=result.nodes is args.nodes)
            self._end(call, {"type": "FILTER", "args": written}, answer)
            return result

        return filter_recorded

    def wrap_prioritize(self, call: PrioritizeCall) -> PrioritizeCall:
        """Record the prioritize call."""

        def prioritize_recorded(args: FilterArgs) -> list[HostPriority]:
            result = call(args)
            line = {"type": "PRIORITIZE", "args": write_filter_args(args, self._projection)}
            self._end(RecordedCall(self._writer, self._clocks), line, answers.prioritized(result))
            return result

        return prioritize_recorded

    def wrap_bind(self, call: BindCall) -> BindCall:
        """Record the bind call."""

        async def bind_recorded(args: BindArgs) -> None:
            began_s, result = self._clocks.monotonic(), BindResult()
            with self._calling() as context:
                try:
                    await call(args)
                except BindError as error:
                    result = BindResult(error=str(error))
                    raise
                except BaseException:
                    # The caller has hung up; the watch shows what the call did.
                    context.abandon()
                    raise
                finally:
                    context.begin()
                    line = {"type": "BIND", "args": write_bind_args(args), "waited": context.at_s - began_s}
                    self._end(context, line, answers.bound(result, context.effects))

        return bind_recorded

    def wrap_review(self, call: ReviewCall) -> ReviewCall:
        """Record the webhook."""

        def review_recorded(review: Review) -> Verdict:
            verdict = call(review)
            try:
                line = {"type": "REVIEW", "review": write_review(review, self._projection)}
            except WireError:
                # Not a pod: nothing was decided.
                return verdict
            self._end(
                RecordedCall(self._writer, self._clocks),
                line,
                answers.reviewed(review.api_version, review.uid, verdict),
            )
            return verdict

        return review_recorded

    def _concerns_us(self, pod: Pod) -> bool:
        state = self._state
        return is_plugin(pod) or state.settings.concerns(pod) or state.shown.mistyped.may_be(pod)

    @contextmanager
    def _calling(self) -> Iterator[RecordedCall]:
        """Record what one call writes, until the block ends; one that fails has no answer line."""
        call = RecordedCall(self._writer, self._clocks)
        token = current_call.set(call)
        try:
            yield call
        except BaseException:
            # The caller has hung up, or was told of a failure of ours; the watch shows what the call did.
            call.abandon()
            raise
        finally:
            current_call.reset(token)

    def _end(self, call: RecordedCall, line: JsonLine, answer: JsonLine) -> None:
        call.begin()
        self._calls += 1
        failures = ({"type": "WRITE_FAILED", "of": self._calls, **failure} for failure in call.failures)
        asked = {**line, "id": self._calls, "time": call.time}
        call.end(*failures, asked, {**answer, "id": self._calls})

    def _write(self, line: JsonLine) -> None:
        self._writer.write({**line, "time": write_time(self._clocks.now())})

    def _begin(self) -> Iterator[JsonLine]:
        known: list[tuple[str, Any]] = [(key[0], item) for key, (_, item) in self._written.items()]
        order = (NODES.kind, RESOURCE_QUOTAS.kind, LEASES.kind, PODS.kind)
        known.sort(key=lambda pair: order.index(pair[0]))
        yield from header_lines(self._state.settings, self._clocks.now(), known)
        yield from map(nomination_line, self._state.nominations)
        outlook = self._state.cluster.outlook
        if outlook.is_known:
            yield outlook_line(outlook.mix, outlook.known_cpu())


def _key_of(kind: str, metadata: ObjectMeta) -> _Key:
    return kind, metadata.namespace, metadata.name, metadata.uid


def _cut_reply(result: dict[str, Any], nodes: dict[str, Any], *, is_echo: bool) -> None:
    """Put the nodes that were recorded into the reply, in place of those that came."""
    if is_echo:
        result["Nodes"] = nodes
        return
    by_name = {item["metadata"]["name"]: item for item in nodes["items"]}
    result["Nodes"]["items"] = [by_name[item["metadata"]["name"]] for item in result["Nodes"]["items"]]
