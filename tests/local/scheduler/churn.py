"""Pods of all priorities come and go, and a judge who knows nothing but sums says whether each eviction was needed.

Every node has one card of 10,000 MiB, so whether a pod fits is one addition.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import DEFAULTS, LOCK, Site

from gpuloom.engine.state.nominations import Nomination
from gpuloom.scheduler import SchedulerProcess
from gpuloom.scheduler.observer import ProcessObserver
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Pod

ON = replace(DEFAULTS, preemption="on")
CARD_MIB = 10000
NODES = ("n1", "n2", "n3")


@dataclass
class Evicting:
    """For whom who was to leave which node, and how many pods had been bound by then."""

    uid: str
    node: str
    victims: frozenset[str]
    bound_before: int


@dataclass
class Book:
    """What the churn knows of its pods, by UID: what they ask for, how important they are, and what became of them."""

    memory_mib: dict[str, int] = field(default_factory=dict)
    priority: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    bound: list[tuple[str, str]] = field(default_factory=list)
    evicting: list[Evicting] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def used(self, uids: Iterable[str]) -> int:
        return sum(self.memory_mib[uid] for uid in uids)

    def find_in_vain(self) -> list[str]:
        """Return those for whom others left, and who neither ran, nor were deleted, nor lost the room to the higher."""
        ran = {uid for uid, _ in self.bound}
        left = [one for one in self.evicting if one.uid not in ran | self.deleted]
        return [one.uid for one in left if not self._took_over(one)]

    def _took_over(self, evicting: Evicting) -> bool:
        later = self.bound[evicting.bound_before :]
        mine = self.priority[evicting.uid]
        return any(node == evicting.node and self.priority[uid] > mine for uid, node in later)

    def find_unserved(self, state: SchedulerState) -> list[str]:
        """Return pods that wait although the less important could make room."""
        found = []
        for uid, pod in state.shown.pods.items():
            if pod.spec.node_name:
                continue
            for node in state.cluster.nodes:
                held = [one.uid for one in state.cluster.ledger.on_node(node)]
                kept = [one for one in held if self.priority[one] >= self.priority[uid]]
                if self.used(kept) + self.memory_mib[uid] <= CARD_MIB:
                    found.append(f"{pod.name} could have {node}")
        return found


class Judge(ProcessObserver):
    """Observes a process, and notes every nomination that was not needed; of pods that are not in the book, none.

    asked  gives the pods that were asked to leave, whether or not the watch has shown that they end
    """

    def __init__(self, state: SchedulerState, book: Book, asked: Callable[[], Collection[str]]) -> None:
        self._state, self._book, self._asked = state, book, asked

    def on_nominated(self, nomination: Nomination) -> None:
        book, uid = self._book, nomination.uid
        # What another leader began was judged then.
        if not (nomination.victims and nomination.is_asked) or uid not in book.memory_mib:
            return
        book.evicting.append(Evicting(uid, nomination.node, nomination.victims, len(book.bound)))
        asked, stay = book.memory_mib[uid], self._staying(nomination.node) - nomination.victims
        if book.used(stay) + asked > CARD_MIB:
            book.wrong.append(f"{nomination}: does not fit when all have left")
        if any(book.used({*stay, victim}) + asked <= CARD_MIB for victim in nomination.victims):
            book.wrong.append(f"{nomination}: somebody could stay")
        if any(book.priority[victim] >= nomination.priority for victim in nomination.victims):
            book.wrong.append(f"{nomination}: a victim is as important")
        for node in self._state.cluster.nodes:
            if book.used({*self._all(node), *self._waiting_for(node, nomination)}) + asked <= CARD_MIB:
                book.wrong.append(f"{nomination}: {node} has room")

    def on_nomination_ended(self, uid: str) -> None:
        """Forget for whom nobody was asked to leave after all."""
        book = self._book
        book.evicting = [one for one in book.evicting if one.uid != uid or not self._stay(one.victims)]

    def _stay(self, uids: frozenset[str]) -> bool:
        held, shown = self._state.cluster.ledger, self._state.shown
        return all(held.find(uid) and not shown.is_terminating(uid) and uid not in self._asked() for uid in uids)

    def _all(self, node: str) -> set[str]:
        return {held.uid for held in self._state.cluster.ledger.on_node(node)}

    def _staying(self, node: str) -> set[str]:
        return {
            uid for uid in self._all(node) if not self._state.shown.is_terminating(uid) and uid not in self._asked()
        }

    def _waiting_for(self, node: str, nomination: Nomination) -> set[str]:
        others = self._state.nominations.that_bind(nomination.uid, nomination.priority)
        return {one.uid for one in others if one.node == node}


class Churn:
    """One cluster, its pods, and what kube-scheduler and kubelets do, in an order that chance chooses."""

    def __init__(self, site: Site, chance: Random) -> None:
        self.book = Book()
        self._site, self._chance = site, chance
        self._pods: dict[str, Pod] = {}

    @property
    def state(self) -> SchedulerState:
        return self._site.process.state

    async def start(self) -> None:
        site = self._site
        site.process = SchedulerProcess(
            ON,
            site.client,
            clocks=site.clock.clocks,
            make_observer=lambda state: Judge(state, self.book, site.list_evicted),
        )
        await site.stack.enter_async_context(site.process)
        await site.process.wait_synced()

    async def kill(self) -> None:
        await self._site.stack.aclose()
        await self.start()
        await poll(lambda: all(name in self.state.shown.nodes for name in NODES))

    async def create(self) -> None:
        number, importance = len(self._pods), self._chance.choice((0, 1, 1, 5, 20))
        memory_mib = self._chance.choice((1000, 2000, 3000, 5000, 8000))
        pod = await self._site.submit(f"p{number}", memory_mib=memory_mib, spec={"priority": importance})
        self._pods[pod.metadata.uid] = pod
        self.book.memory_mib[pod.metadata.uid], self.book.priority[pod.metadata.uid] = memory_mib, importance

    async def delete_somebody(self) -> None:
        here = [uid for uid in self._pods if uid not in self.book.deleted and uid in self.state.shown.pods]
        if here:
            uid = self._chance.choice(here)
            self.book.deleted.add(uid)
            await self._site.remove(self._pods[uid])

    async def let_leavers_go(self, probability: float = 0.5) -> None:
        """Let some of those that end be gone."""
        for uid in [uid for uid in self._pods if uid in self.state.shown.pods and self.state.shown.is_terminating(uid)]:
            if self._chance.random() < probability:
                await self._site.remove(self._pods[uid])

    async def schedule(self) -> None:
        """Try all pods that wait, the most important first, as kube-scheduler does."""
        waiting = [
            uid for uid in self._pods if uid in self.state.shown.pods and not self.state.shown.pods[uid].spec.node_name
        ]
        for uid in sorted(waiting, key=lambda one: -self.book.priority[one]):
            if uid not in self.state.shown.pods:
                continue
            node = await self._site.choose(self.state.shown.pods[uid], *NODES)
            self.check()
            if node is not None and await self._site.bind(self._pods[uid], node) == "":
                self.book.bound.append((uid, node))
                await self._site.annotate(node, {LOCK: None})

    def check(self) -> None:
        for node in NODES:
            assert self.book.used(held.uid for held in self.state.cluster.ledger.on_node(node)) <= CARD_MIB
        assert self.book.wrong == []

    async def pause(self) -> None:
        await self._site.clock.advance(0.2)
        await let_answers_arrive()
        await self._site.clock.advance(self._chance.choice((0.1, 1.0)))

    async def settle(self) -> None:
        """Go on without news until nothing changes any more."""
        for _ in range(40):
            await self.let_leavers_go(1.0)
            await self.schedule()
            await self.pause()
            if not len(self.state.nominations) and not any(map(self.state.shown.is_terminating, self.state.shown.pods)):
                await self._site.clock.advance(2)
                await self.schedule()
                await self.pause()
                if not len(self.state.nominations):
                    return
        raise AssertionError(f"never settled: {list(self.state.nominations)}")
