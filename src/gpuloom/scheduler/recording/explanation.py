"""Explains a recorded Filter to a person: by the engine, or by what the answer alone says."""

from collections.abc import Iterator

from gpuloom.engine.explanation.cores import share_in_per_cent
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.text import tell_cores, tell_explanation
from gpuloom.engine.explanation.values import Explanation
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.pods.pending import KEEPING
from gpuloom.scheduler.recording.answers import Answer
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import decode_filter_args
from gpuloom.wire.objects import Pod

Paragraph = list[str]


class Explainer:
    """Explains one Filter: :meth:`prepare` before it is answered, :meth:`describe` with the answer."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._state = parts.state
        self._pod: Pod | None = None
        self._explanation: Explanation | None = None

    def prepare(self, body: bytes) -> None:
        """Ask the engine for the whole truth, which an answer does not need; changes nothing."""
        try:
            args = decode_filter_args(body)
        except WireError:
            return
        self._pod = args.pod
        if args.pod is not None and args.nodes is None and self._is_open(args.pod):
            self._explanation = self._explain(args.pod, args.nodenames.all() if args.nodenames else [])

    def describe(self, answer: Answer) -> Paragraph:
        """Return the explanation, a line an item."""
        name = self._pod.full_name if self._pod is not None else "unreadable"
        title = f"FILTER {answer['id']}: pod {name}" if "id" in answer else f"FILTER: pod {name}"
        result = answer["result"]
        if result["Error"]:
            return [title, f"  no decision: {result['Error']}"]
        if self._pod is None or not self._state.settings.asks_for_cards(self._pod):
            return [title, "  asks for no card: every node may take it"]
        told = self._describe_answer(answer) if self._explanation is None else tell_explanation(self._explanation)
        held = self._state.cluster.ledger.find(self._pod.metadata.uid)
        chosen = self._describe_cards(held) if result["NodeNames"] and held is not None else ()
        return [title, *chosen, *(f"  {line}" for line in told)]

    def _is_open(self, pod: Pod) -> bool:
        """Whether the pod holds nothing yet: an explanation would tell of that instead."""
        return self._state.settings.asks_for_cards(pod) and self._state.cluster.ledger.find(pod.metadata.uid) is None

    def _explain(self, pod: Pod, names: list[str]) -> Explanation | None:
        try:
            demands = self._state.settings.read_demands(pod)
        except PolicyError:
            return None
        keeping = self._find_keeping(pod)
        barred = {
            node: who for node, who in keeping.items() if self._state.decider.keeps_room(demands, node, pod.priority)
        }
        explain_absence = self._parts.nodes.explain_missing_cards
        scope = ExplanationScope(names, barred, explain_absence, pod=pod, hopeless=frozenset(keeping))
        return run_to_end(explain(self._state.pod_scheduler, demands, scope))

    def _find_keeping(self, pod: Pod) -> dict[str, str]:
        """Return the nodes that must keep others their room, and say for whom."""
        by_node: dict[str, list[str]] = {}
        for one in self._state.nominations.that_bind(pod.metadata.uid, pod.priority):
            by_node.setdefault(one.node, []).append(one.full_name)
        return {node: f"{KEEPING}: {', '.join(names)}" for node, names in by_node.items()}

    def _describe_cards(self, held: Reservation) -> Iterator[str]:
        yield f"  goes to node {held.node}"
        for word in held.shares:
            for share, _ in held.each_share_of(word):
                cores = share_in_per_cent(self._state.cluster, held.node, word, share.uuid, share.cores)
                yield f"    on {share.uuid}: {share.memory_mib:,} MiB, {tell_cores(cores)}"
        for part in held.instances:
            yield f"    as MIG instance {part.profile} of {part.gpu_uuid}"

    def _describe_answer(self, answer: Answer) -> Iterator[str]:
        """Tell what the answer alone says: of a simulation, or of a pod that was filtered again."""
        result = answer["result"]
        if result["NodeNames"]:
            return
        if result["Nodes"]:
            names = ", ".join(str(item["metadata"]["name"]) for item in result["Nodes"]["items"])
            yield f"would go to {names} (simulation: nothing is reserved)"
            return
        yield "fits on no node"
        yield from (f"  {node}: {text}" for node, text in sorted((result["FailedNodes"] or {}).items()))
