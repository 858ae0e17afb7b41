"""A recording played to the decision core: line by line, each with its answer."""

from contextlib import suppress
from typing import Any

import msgspec

from gpuloom.kube.errors import Status
from gpuloom.scheduler.bind.moving import MoveRefusedError
from gpuloom.scheduler.bind.verb import BindError
from gpuloom.scheduler.groups.cleanup import GROUP
from gpuloom.scheduler.outlook.lines import read_cpu, read_mix
from gpuloom.scheduler.pods.cleanup import GONE
from gpuloom.scheduler.preemption.nominating import nominate
from gpuloom.scheduler.recording import answers
from gpuloom.scheduler.recording.answers import Answer
from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.recording.flags import read_settings, read_zone
from gpuloom.scheduler.recording.lines import (
    AddedLine,
    AnyLine,
    BindLine,
    DeletedLine,
    FilterLine,
    ForgottenLine,
    ModifiedLine,
    MovedLine,
    NominatedLine,
    NominationEndedLine,
    OutlookLine,
    PrioritizeLine,
    ReconcileLine,
    ReviewLine,
    SettingsLine,
    WriteFailedLine,
    key_of,
)
from gpuloom.scheduler.recording.replayclock import ReplayClock
from gpuloom.scheduler.recording.replayedprocess import ReplayedProcess
from gpuloom.wire.admission import Verdict, decode_review
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import BindArgs, BindResult, FilterResult, decode_bind_args, decode_filter_args
from gpuloom.wire.words import decode_time


class Player:
    """Plays lines in order. Answer lines and counts of lost lines are passed over.

    process  what they are played to until the first SETTINGS line; without it, one whose flags are the default ones
    """

    def __init__(self, process: ReplayedProcess | None = None) -> None:
        self._clock = ReplayClock()
        self._process = process
        self._failures: dict[str, list[WriteFailedLine]] = {}
        self._bound: dict[str, BindArgs] = {}

    @property
    def process(self) -> ReplayedProcess:
        """What the lines are played to."""
        if self._process is None:
            self._process = ReplayedProcess(read_settings({}, None), self._clock)
        return self._process

    async def play(self, line: AnyLine) -> Answer | None:
        """Take one line and return its answer line, None when it has none.

        Raises LineError when the line cannot be used.
        """
        self._set_time(line.time)
        answer = await self._answer(line)
        if answer is not None and line.id is not None:
            return {"type": answer.pop("type"), "id": line.id, **answer}
        return answer

    def _set_time(self, text: str | None) -> None:
        if text is None:
            return
        try:
            self._clock.set(decode_time(text))
        except WireError as error:
            raise LineError(f"time: {error}") from error
        if self._process is not None:
            self._process.check_time()

    async def _answer(self, line: AnyLine) -> Answer | None:
        match line:
            case AddedLine() | ModifiedLine() | DeletedLine():
                self.process.take_fact(line)
            case FilterLine():
                return await self._filter(line)
            case ReviewLine():
                return self._review(line)
            case PrioritizeLine():
                return self._prioritize(line)
            case BindLine():
                return await self._bind(line)
            case ReconcileLine():
                await self.process.reconcile(line.nodes)
                return answers.reconciled(self.process.client.take_effects())
            case _:
                self._change(line)
        return None

    def _change(self, line: AnyLine) -> None:
        """Take what is neither a fact nor a question."""
        match line:
            case SettingsLine():
                flags = line.flags or {}
                self._clock.zone = read_zone(flags)
                settings = read_settings(flags, line.device_config, line.vendors or ())
                self._process = ReplayedProcess(settings, self._clock)
                self._failures.clear()
                self._bound.clear()
            case WriteFailedLine():
                self._take_failure(line)
            case ForgottenLine():
                self._forget(line)
            case MovedLine():
                self._move(line)
            case NominatedLine():
                nominate(self.process.parts.state, line.uid, line.node, line.since, frozenset(line.victims))
            case NominationEndedLine():
                self.process.parts.state.nominations.end(line.uid, "recorded")
            case OutlookLine():
                self._look_ahead(line)

    async def _filter(self, line: FilterLine) -> Answer:
        client, verb = self.process.client, self.process.parts.filter_verb
        try:
            args = decode_filter_args(bytes(line.args))
        except WireError as error:
            return answers.filtered(FilterResult(error=str(error)), None, client.take_effects())
        self._set_failures(line.id)
        result = await verb.filter(args)
        return answers.filtered(result, verb.patch_of(args, result), client.take_effects())

    def _prioritize(self, line: PrioritizeLine) -> Answer:
        try:
            args = decode_filter_args(bytes(line.args))
        except WireError as error:
            raise LineError(f"args: {error}") from error
        return answers.prioritized(self.process.parts.state.offers.prioritize(args))

    def _review(self, line: ReviewLine) -> Answer:
        try:
            review = decode_review(bytes(line.review))
        except WireError as error:
            return answers.reviewed("admission.k8s.io/v1", "", Verdict(allowed=False, code=400, message=str(error)))
        return answers.reviewed(review.api_version, review.uid, self.process.parts.webhook.review(review))

    async def _bind(self, line: BindLine) -> Answer:
        client = self.process.client
        try:
            args = decode_bind_args(bytes(line.args))
            self._set_failures(line.id)
            await self.process.parts.bind_verb.bind(args)
        except (WireError, BindError) as error:
            result = BindResult(error=str(error))
        else:
            result = BindResult()
            if line.id is not None:
                self._bound[key_of(line.id)] = args
        self.process.show_nodes_again(effects := client.take_effects())
        return answers.bound(result, effects)

    def _set_failures(self, id_: Any) -> None:
        """Let the writes of one call fail as lines before it said."""
        failures = self._failures.pop(key_of(id_), []) if id_ is not None else []
        self.process.client.set_failures(
            (line.object.kind, line.object.namespace, line.object.name, _status(line)) for line in failures
        )

    def _take_failure(self, line: WriteFailedLine) -> None:
        args = self._bound.pop(key_of(line.of), None)
        if args is None:
            self._failures.setdefault(key_of(line.of), []).append(line)
        else:
            self.process.parts.state.release(args.poduid)

    def _look_ahead(self, line: OutlookLine) -> None:
        try:
            mix = None if line.pods is None else read_mix(line.pods)
        except ValueError as error:
            raise LineError(f"pods: {error}") from error
        self.process.parts.outlook.tell(mix, read_cpu(line.cpu or {}))

    def _move(self, line: MovedLine) -> None:
        """Move a reservation as the Bind did whose line follows; what cannot move is for that Bind to say."""
        state = self.process.parts.state
        pod, held = state.shown.pods.get(line.uid), state.cluster.ledger.find(line.uid)
        if pod is not None and held is not None and held.node != line.node:
            with suppress(MoveRefusedError):
                self.process.parts.mover.move(pod, held, line.node)

    def _forget(self, line: ForgottenLine) -> None:
        state = self.process.parts.state
        if line.why == GONE:
            state.remove_pod(line.uid, self._clock.monotonic())
            return
        if line.why == GROUP and (pod := state.shown.pods.get(line.uid)):
            state.groups.note_given_back(pod)
        state.release(line.uid)


def _status(line: WriteFailedLine) -> Status:
    if isinstance(line.status, int):
        return Status(code=line.status)
    try:
        return msgspec.convert(line.status, Status)
    except msgspec.ValidationError as error:
        raise LineError(f"status: {error}") from error
