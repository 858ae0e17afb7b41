"""What must hold at every moment, looked at from the API server's own objects and from what kubelets were answered."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from gpuloom.wire.errors import WireError
from gpuloom.wire.lock import decode_lock
from harness.accounts import LOCK, Accounts, ToldPod, read_shares
from harness.chaos.calm import Calm
from harness.chaos.shapes import Rooms, Shape, read_shape

LOOK_S = 0.5
WAIT_LIMIT_S = 5.0
"""So long a pod may wait, or be bound and not served, while nothing is in its way."""
LOCK_LIMIT_S = 120.0
"""So long a node may be locked by one pod: an abandoned lock is taken over after 35 s, and a leader may be lost
meanwhile."""
ALLOCATED = "hami.io/vgpu-devices-allocated"
PHASE = "hami.io/bind-phase"


class Promises:
    """Follows the accounts and keeps `complaints`; `longest_s` has what took longest, by what it was."""

    def __init__(self, accounts: Accounts, calm: Calm, rooms: Rooms, clock: Callable[[], float]):
        """Prepare to look at what `accounts` know; `clock` tells monotonic seconds."""
        self.longest_s: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.clock_offsets_s: list[float] = []
        self._accounts = accounts
        self._calm = calm
        self._rooms = rooms
        self._clock = clock
        self._complaints: dict[tuple[str, str], str] = {}
        self._came_s: dict[str, float] = {}
        self._handed_s: dict[str, float] = {}
        self._cards: dict[str, tuple[str, ...]] = {}
        self._served: dict[str, tuple[str, ...]] = {}
        self._lock_since_s: dict[tuple[str, str], float] = {}
        self._bound_s = self._clock()

    @property
    def complaints(self) -> list[str]:
        """What was not as promised, each once."""
        return [*(f"over-allocated: {one}" for one in self._accounts.violations), *self._complaints.values()]

    @property
    def unserved(self) -> list[str]:
        """The names of pods that are bound and were not served until now."""
        return [self._accounts.pods[uid].name for uid in self._handed_s if uid in self._accounts.pods]

    def see_pod(self, before: ToldPod | None, after: ToldPod | None) -> None:
        """Take a change of a pod."""
        now_s = self._clock()
        for node in {pod.spec.node_name for pod in (before, after) if pod and pod.spec.node_name}:
            self._rooms.note(node, self._accounts.cards(node).values(), now_s)
        if after is None:
            if before is not None:
                self._forget(before.metadata.uid)
            return
        uid = after.metadata.uid
        self._came_s.setdefault(uid, now_s)
        if after.spec.node_name:
            self._see_bound(before if before and before.spec.node_name else None, after, now_s)
        if after.is_over:
            self._handed_s.pop(uid, None)

    def see_node(self, name: str) -> None:
        """Take a change of a node."""
        now_s = self._clock()
        self._rooms.note(name, self._accounts.cards(name).values(), now_s)
        node = self._accounts.nodes.get(name)
        lock = node.annotations.get(LOCK, "") if node else ""
        for key in [key for key in self._lock_since_s if key[0] == name and key[1] != lock]:
            del self._lock_since_s[key]
        if lock and (name, lock) not in self._lock_since_s:
            self._lock_since_s[name, lock] = now_s
            self._note_clock(lock)

    def hear(self, answer: Mapping[str, Any]) -> None:
        """Take what a kubelet was answered."""
        if answer["answer"] == "served":
            self._hear_served(answer)
        elif answer["is_gone"]:
            self.counts["Allocates for pods that had gone"] += 1
        else:
            self.counts["Allocates refused"] += 1
            self.refusals[_shorten(answer["message"])] += 1
            if self._calm.since_s is not None:
                self._complain("lost grant", answer["asked"], f"Allocate on {answer['node']}: {answer['message']}")

    async def watch(self) -> None:
        """Look at what time alone makes wrong, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._calm.check()
            self.look()

    def look(self) -> None:
        """Look once."""
        now_s = self._clock()
        calm_s = self._calm.since_s
        self._look_at_waiting(now_s, calm_s)
        for uid, handed_s in self._handed_s.items():
            self._note("handed over and not served", now_s - handed_s)
            if calm_s is not None and now_s - max(handed_s, calm_s) > WAIT_LIMIT_S:
                self._complain("served late", uid, f"was bound {now_s - handed_s:.0f} s ago and is not served")
        for (node, lock), since_s in self._lock_since_s.items():
            self._note("one lock", now_s - since_s)
            if now_s - since_s > LOCK_LIMIT_S:
                self._complain("lock left", node, lock)

    def _look_at_waiting(self, now_s: float, calm_s: float | None) -> None:
        began_s = now_s
        room_since_s: dict[Shape, float | None] = {}
        for pod in self._accounts.waiting:
            uid, shape = pod.metadata.uid, read_shape(pod)
            if shape not in room_since_s:
                room_since_s[shape] = self._rooms.since_s(shape)
            if (room_s := room_since_s[shape]) is None:
                continue
            since_s = max(self._came_s.get(uid, now_s), room_s)
            began_s = min(began_s, since_s)
            self._note("wait with room, disturbed or not", now_s - since_s)
            if calm_s is None:
                continue
            self._note("wait with room, calm", now_s - max(since_s, calm_s))
            if now_s - max(since_s, calm_s) > WAIT_LIMIT_S:
                self._complain("waits although there is room", uid, f"{shape}")
        since_s = max(began_s, self._bound_s)
        self._note("without a decision, disturbed or not", now_s - since_s)
        if calm_s is not None:
            self._note("without a decision, calm", now_s - max(since_s, calm_s))

    def _see_bound(self, before: ToldPod | None, after: ToldPod, now_s: float) -> None:
        uid = after.metadata.uid
        phase = after.annotations.get(PHASE, "")
        if before is None:
            self._bound_s = now_s
            self.counts["pods bound"] += 1
            self._cards[uid] = tuple(sorted(read_shares(after)))
            if not self._cards[uid]:
                self._complain("lost grant", uid, "was bound without cards")
            if phase == "allocating":
                self._handed_s[uid] = now_s
            self._compare(uid)
            return
        if before.annotations.get(ALLOCATED) != after.annotations.get(ALLOCATED):
            self._complain("doubled grant", uid, "got other cards after it was bound")
        if before.annotations.get(PHASE) != "allocating" and phase == "allocating":
            self._complain("doubled grant", uid, "was handed over again")
        if phase != "allocating" and self._handed_s.pop(uid, None) is not None:
            self.counts[f"pods that came to phase {phase}"] += 1

    def _hear_served(self, answer: Mapping[str, Any]) -> None:
        uid = answer["uid"]
        self.counts["Allocates served"] += 1
        if uid in self._served:
            self._complain("doubled grant", uid, f"was served twice on {answer['node']}")
        if uid != answer["asked"]:
            self._complain("lost grant", answer["asked"], f"another pod was served in its place: {uid}")
        self._served[uid] = tuple(sorted(answer["cards"]))
        self._compare(uid)

    def _compare(self, uid: str) -> None:
        cards, served = self._cards.get(uid), self._served.get(uid)
        if cards is not None and served is not None and cards != served:
            self._complain("lost grant", uid, f"has {cards} by its annotation and was served {served}")

    def _forget(self, uid: str) -> None:
        for known in (self._came_s, self._handed_s, self._cards):
            known.pop(uid, None)

    def _note_clock(self, lock: str) -> None:
        """Note how far the clock of whoever set a lock is from the API server's; locks carry whole seconds."""
        try:
            self.clock_offsets_s.append(decode_lock(lock).time.timestamp() + 0.5 - time.time())
        except WireError:
            self._complain("lock that cannot be read", lock, "")

    def _note(self, what: str, took_s: float) -> None:
        self.longest_s[what] = max(self.longest_s.get(what, 0.0), took_s)

    def _complain(self, what: str, who: str, text: str) -> None:
        pod = self._accounts.pods.get(who)
        self._complaints.setdefault((what, who), f"{what}: {pod.name if pod else who} {text}")


def _shorten(message: str) -> str:
    """Leave out the names, so that messages of one kind are counted together."""
    return re.sub(r"(node-|pod-|default/pod-)\d+", r"\1N", message)[:200]
