"""Watches a process during a storm, and says what breaks a promise (docs/reliability.md)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.state.ledger import Reservation, sum_by_card
from gpuloom.engine.state.nominations import Nomination
from gpuloom.model.mig import MIG_MODE
from gpuloom.scheduler import SchedulerProcess
from gpuloom.scheduler.filter.verb import FilterVerb
from gpuloom.scheduler.observer import FilterCall, ProcessObserver
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.extender import FilterArgs, FilterResult


@dataclass
class Judge(ProcessObserver):
    """Notes in ``wrong`` every decision that gives what is not there, and every victim that was not needed.

    process          None until it is made
    chosen_by_others  UIDs of pods for which kube-scheduler chooses victims
    """

    state: SchedulerState
    wrong: list[str]
    chosen_by_others: Collection[str]
    process: SchedulerProcess | None = field(default=None, repr=False)

    def wrap_filter(self, verb: FilterVerb) -> FilterCall:
        async def judged(args: FilterArgs) -> FilterResult:
            result = await verb.filter(args)
            # What is written before it is answered may have been right when it was decided.
            is_fresh = self.state.settings.filter_write == "bind"
            held = self.state.cluster.ledger.find(args.pod.metadata.uid) if args.pod and is_fresh else None
            if held is not None and held.node in (result.node_names or ()):
                self.wrong += [f"{held.full_name} on {held.node}: {what}" for what in self._find_excess(held)]
            return result

        return judged

    def _find_excess(self, held: Reservation) -> Iterator[str]:
        """Give what a pod was just given that others hold, or that takes no pods."""
        cluster = self.state.cluster
        for node, word, uuid in sum_by_card(held, held.usage_by_vendor()):
            registered = cluster.registered(node, word)
            known = {one.id: one for one in registered.cards} if registered else {}
            if registered is None or uuid not in known:
                yield f"there is no card {uuid}"
                continue
            card, used = known[uuid], cluster.ledger.usage((node, word, uuid))
            closings = cluster.closings.on_node(node)
            if not card.healthy or uuid in registered.cordoned:
                yield f"card {uuid} is closed"
            if any(uuid in one.closes(word, known.keys()) for one in closings):
                yield f"card {uuid} is closed by a pod"
            # Of a divided card its parts are what counts.
            is_exceeded = used.memory_mib > card.memory_mib or used.cores > card.cores
            if used.slots > card.count or (is_exceeded and card.mode != MIG_MODE):
                yield f"{used} of {card}"
        yield from self._find_overlaps(held)
        yield from self._find_quotas_exceeded(held)

    def _find_quotas_exceeded(self, held: Reservation) -> Iterator[str]:
        """Give what a pod was just given beyond the quotas of its namespace.

        Of parts of divided cards more is given than is asked for, which is what quotas are compared with.
        """
        if held.names_parts:
            return
        cluster = self.state.cluster
        for word, usages in held.usage_by_vendor().items():
            left = cluster.quotas.headroom(held.namespace, self.state.settings.catalog[word], cluster.ledger)
            takes_memory = any(one.memory_mib for one in usages.values())
            takes_cores = any(one.cores for one in usages.values())
            if (takes_memory and left.memory_mib < 0) or (takes_cores and left.cores < 0):
                yield f"the quotas of {held.namespace} leave {left} of {word}"

    def _find_overlaps(self, held: Reservation) -> Iterator[str]:
        for other in self.state.cluster.ledger.on_node(held.node):
            for one in other.instances if other.uid != held.uid else ():
                for mine in held.instances:
                    if mine.gpu_uuid == one.gpu_uuid and mine.placement.overlaps(one.placement):
                        yield f"{mine} overlaps {one} of {other.full_name}"

    def on_nominated(self, nomination: Nomination) -> None:
        if nomination.victims and self.process is not None and nomination.uid not in self.chosen_by_others:
            leaving = self.process.parts.preemption.finder.find_leaving()
            wrong = self._find_needless(nomination, leaving)
            self.wrong += [f"{nomination}, {leaving} leave: {what}" for what in wrong]

    def _find_needless(self, nomination: Nomination, leaving: frozenset[str]) -> Iterator[str]:
        """Give why some of those who are to leave need not, or should not."""
        ledger, node, victims = self.state.cluster.ledger, nomination.node, nomination.victims
        for uid in victims:
            held = ledger.find(uid)
            if held is None or held.node != node or held.priority >= nomination.priority:
                yield f"{uid} is elsewhere or as important"
        kept = self.state.nominations.nodes_kept_from(nomination.uid, nomination.priority)
        yield from (
            f"{one} has room" for one in self.state.shown.nodes.keys() - kept if self._takes(nomination, one, ())
        )
        if node in kept:
            return
        # What others on other nodes leave of a quota is not foreseen.
        going = leaving & {one.uid for one in ledger.on_node(node)}
        if not self._takes(nomination, node, victims | going):
            yield "does not fit when all have left"
        yield from (f"{one} could stay" for one in victims if self._takes(nomination, node, (victims | going) - {one}))

    def _takes(self, nomination: Nomination, node: str, left: Collection[str]) -> bool:
        """Tell whether a node takes a pod once others have left, without anything remembered."""
        if not self.state.cluster.has(node):
            return False
        fork = self.state.cluster.fork()
        for uid in left:
            fork.forget(uid)
        return PodScheduler(fork, self.state.settings.options).takes(nomination.demands, node)
