"""What happens to the nodes of a cluster: cards of every family come, change and go, and pods hold some of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from comings import NOTHING, NVIDIA, cards_of, demands_of
from hypothesis import strategies as st
from msgspec.structs import replace as replace_struct

from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.model.card import Card
from gpuloom.model.mig import MIG_MODE, MigAllocation, MigPlacement, MigProfile
from gpuloom.model.share import Share, Tenancy
from gpuloom.wire.objects import ObjectMeta, ResourceQuota, ResourceQuotaSpec

NODES = tuple(f"n{number}" for number in range(4))
POLICIES = ("", "best-effort", "fixed-share", "burst-share")
PROFILE = MigProfile("1g.5gb", 5120, 14, 1, tuple(MigPlacement(start, 1) for start in range(7)))
Change = Callable[[PodScheduler], object]


def peer_of(word: str) -> str:
    return "DCU" if word == NVIDIA else NVIDIA


def register(word: str, node: str, at: int, much: int) -> Change:
    """Register cards; those of some nodes are divided, show a policy, or are out of service."""
    count, kind = at % 4, much % 4
    said = cards_of(word, node, count) if count else NOTHING
    said = replace(said, cards=tuple(turn(one, kind) for one in said.cards))
    if said.cards and kind == 3:
        said = replace(said, cordoned=frozenset({said.cards[0].id}))
    return lambda one: one.cluster_state.register(node, word, said)


def turn(card: Card, kind: int) -> Card:
    if card.model != NVIDIA:
        return replace_struct(card, policy=POLICIES[kind]) if card.model == "Metax-SGPU" else card
    profiles = (PROFILE,) if kind == 1 else ()
    return replace_struct(card, mode=MIG_MODE, mig_profiles=profiles) if kind in {1, 2} else card


def register_peer(word: str, node: str, at: int, much: int) -> Change:
    return register(peer_of(word), node, at % 3, much)


def leave(word: str, node: str, _at: int, _much: int) -> Change:
    return register(word, node, 0, 0)


def hold(word: str, node: str, at: int, much: int) -> Change:
    """Let a pod hold a share of a card, of a part of it, or of one that nobody knows."""
    known = cards_of(word, node, 3).cards[at % 3].id
    parts = (MigAllocation(0, 0, known, PROFILE.name, PROFILE.placements[much]),) if at == 4 else ()
    share = Share(f"{known}[0-{much}]" if at == 3 else known, word, 1000 * much, 100 if much == 6 else 10 * much)
    tenancy = Tenancy(("", "online", "offline")[at % 3], POLICIES[much % 4])
    held = Reservation(
        uid=f"{node}-{at}",
        namespace="ns",
        name=f"{node}-{at}",
        node=node,
        shares={word: ((share,),)},
        container_types=(),
        status=ReservationStatus.ASSUMED,
        since=0.0,
        instances=parts,
        tenancies={word: tenancy},
    )
    return lambda one: one.cluster_state.assume(held)


def place(word: str, node: str, at: int, much: int) -> Change:
    """Let a pod hold what is decided for it."""

    def do(one: PodScheduler) -> None:
        demands = demands_of(word, 1 + much % 2)
        decision = one.decide(demands, (node,))
        if decision.node is not None:
            one.cluster_state.assume(imagine_placed(demands, decision, uid=f"placed-{node}-{at}"))

    return do


def forget(_word: str, node: str, at: int, _much: int) -> Change:
    return lambda one: [one.cluster_state.forget(f"{kind}{node}-{at}") for kind in ("", "placed-")]


def confirm(_word: str, node: str, at: int, _much: int) -> Change:
    return lambda one: one.cluster_state.confirm(f"{node}-{at}")


def close(_word: str, node: str, at: int, _much: int) -> Change:
    return lambda one: one.cluster_state.close(Closing(f"h{at}", "ns", "h", node, "why"))


def reopen(_word: str, _node: str, at: int, _much: int) -> Change:
    return lambda one: one.cluster_state.reopen(f"h{at}")


def set_cpu(_word: str, node: str, _at: int, much: int) -> Change:
    return lambda one: one.cluster_state.set_cpu(node, HostCpu(1000 * much, 64_000))


def limit(_word: str, _node: str, at: int, much: int) -> Change:
    spec = ResourceQuotaSpec({"limits.nvidia.com/gpumem": 20_000 * much})
    return lambda one: one.cluster_state.quotas.apply(ResourceQuota(ObjectMeta(f"q{at % 2}", "ns"), spec))


MOSTLY = [register, hold, place]
CHANGES = [*MOSTLY, *MOSTLY, *MOSTLY, register_peer, leave, forget, confirm, close, reopen, set_cpu, limit]
Drawn = list[tuple[Callable[[str, str, int, int], Change], int, int, int]]
DRAWN = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.integers(0, 3), st.integers(0, 4), st.integers(0, 6)),
    min_size=5,
    max_size=20,
)


def take(drawn: Drawn, word: str, nodes: Sequence[str], *schedulers: PodScheduler) -> None:
    """Let the same happen to several clusters."""
    for make, node, at, much in drawn if nodes else ():
        change = make(word, nodes[node % len(nodes)], at, much)
        for one in schedulers:
            change(one)
