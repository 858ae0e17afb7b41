"""A decision told to a person: where the pod goes and on which cards, or why not, node by node."""

from collections.abc import Iterator

from gpuloom.engine.decision import Decision
from gpuloom.engine.ledger import Reservation
from gpuloom.engine.policies import PolicyError
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.scheduler.recording.answers import Answer
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import FilterArgs, decode_filter_args
from gpuloom.wire.objects import Pod

Paragraph = list[str]


class Explainer:
    """Explains one Filter: :meth:`look` before it is answered, :meth:`tell` with the answer."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._pod: Pod | None = None
        self._decision: Decision | None = None

    def look(self, body: bytes) -> None:
        """Ask the engine for the whole truth, which an answer does not need; changes nothing."""
        try:
            args = decode_filter_args(body)
        except WireError:
            return
        self._pod = args.pod
        if args.pod is not None and args.nodes is None and self._is_open(args.pod):
            self._decision = self._decide(args.pod, args)

    def tell(self, answer: Answer) -> Paragraph:
        """Return the explanation, a line an item."""
        name = self._pod.full_name if self._pod is not None else "unreadable"
        title = f"FILTER {answer['id']}: pod {name}" if "id" in answer else f"FILTER: pod {name}"
        result = answer["result"]
        if result["Error"]:
            return [title, f"  no decision: {result['Error']}"]
        if self._pod is None or not self._state.asks_for_cards(self._pod):
            return [title, "  asks for no card: every node may take it"]
        told = self._tell_decision(answer) if self._decision is None else [*self._tell_all(self._decision)]
        return [title, *self._tell_request(self._pod), *told]

    def _is_open(self, pod: Pod) -> bool:
        """Whether the pod holds nothing yet: what it holds itself would be in its own way."""
        return self._state.asks_for_cards(pod) and self._state.cluster.ledger.find(pod.metadata.uid) is None

    def _decide(self, pod: Pod, args: FilterArgs) -> Decision | None:
        try:
            demand = self._state.read_demand(pod)
        except PolicyError:
            return None
        decider = self._state.decider
        decision = decider.decide(demand, decider.look_up(args.nodenames.all() if args.nodenames else []), explain=True)
        for _ in decision.complete():
            pass
        return decision

    def _tell_request(self, pod: Pod) -> Iterator[str]:
        try:
            demand = self._state.read_demand(pod)
        except PolicyError:
            return
        for container in demand.containers:
            if container.request is not None:
                yield f"  {container.phase.value} container {container.name} asks for {_tell_amount(container.request)}"

    def _tell_all(self, decision: Decision) -> Iterator[str]:
        held = self._held()
        if decision.node is not None and held is not None:
            yield from _tell_cards(held)
            yield "  fitting nodes, best first:"
            for node, score in reversed(decision.fitting.worst_first()):
                yield f"    {node}: score {score:.2f}"
        else:
            yield f"  fits on none of {decision.candidates} nodes"
        if decision.refusals:
            yield "  refused:"
        for node, refusal in sorted(decision.refusals.items()):
            yield f"    {node}: {refusal.text}"
            yield from (f"      {meaning}" for meaning in _tell_meanings(refusal))

    def _tell_decision(self, answer: Answer) -> Paragraph:
        """Tell what the answer alone says: of a simulation, or of a pod that was filtered again."""
        held, result = self._held(), answer["result"]
        if result["NodeNames"] and held is not None:
            return [*_tell_cards(held)]
        if result["Nodes"]:
            names = ", ".join(str(item["metadata"]["name"]) for item in result["Nodes"]["items"])
            return [f"  would go to {names} (simulation: nothing is reserved)"]
        refused = (f"    {node}: {text}" for node, text in sorted((result["FailedNodes"] or {}).items()))
        return ["  fits on no node", *refused]

    def _held(self) -> Reservation | None:
        return self._state.cluster.ledger.find(self._pod.metadata.uid) if self._pod is not None else None


def _tell_amount(request: Request) -> str:
    if request.memory_mib:
        memory = f"{request.memory_mib} MiB"
    elif request.memory_percentage != PERCENTAGE_NOT_SET:
        memory = f"{request.memory_percentage} % of the memory"
    else:
        memory = "no memory"
    each = " each" if request.cards > 1 else ""
    cards = f"{request.cards} card{'s' if request.cards > 1 else ''}"
    return f"{cards}, {memory} and {request.cores} % of the cores{each}"


def _tell_cards(held: Reservation) -> Iterator[str]:
    yield f"  goes to node {held.node}"
    for share, _ in held.each_share():
        yield f"    on {share.uuid}: {share.memory_mib} MiB, {share.cores} % of the cores"
    for part in held.instances:
        yield f"    as MIG instance {part.profile} of {part.gpu_uuid}"


def _tell_meanings(refusal: Refusal) -> Iterator[str]:
    for reason, count in refusal.counts.items():
        head = f"{count} of {refusal.total} cards: " if refusal.total else ""
        yield head + reason.meaning
