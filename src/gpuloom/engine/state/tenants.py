"""Who shares cards with whom, and what linked cards have in common; read from what pods hold (vendors 4.7.2, 4.13)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.cards import WHOLE_CARD, Cards
from gpuloom.model.share import NO_TENANCY, ONLINE, Share


@dataclass(frozen=True, slots=True)
class Tenants:
    """How many pods of each class are on a card."""

    online: int = 0
    offline: int = 0


NO_TENANTS = Tenants()


def count_tenants(reservations: Iterable[Reservation], word: str) -> dict[str, Tenants]:
    """Count the pods of each class on every card of one vendor on a node."""
    found: dict[str, Tenants] = {}
    for held in reservations:
        app_class = held.tenancies.get(word, NO_TENANCY).app_class
        for uuid in {share.uuid for share in _shares(held, word)} if app_class else ():
            known = found.get(uuid, NO_TENANTS)
            is_online = app_class == ONLINE
            found[uuid] = Tenants(known.online + is_online, known.offline + (not is_online))
    return found


def expect_policies(held: Reservation, word: str) -> Iterator[tuple[str, str]]:
    """Give each card of a pod and the policy that it will have: none where the pod has all of its cores."""
    tenancy = held.tenancies.get(word, NO_TENANCY)
    if tenancy.app_class != ONLINE:
        for share in _shares(held, word):
            yield share.uuid, "" if share.cores == WHOLE_CARD else tenancy.policy


def _shares(held: Reservation, word: str) -> Iterator[Share]:
    return (share for shares in held.shares.get(word, ()) for share in shares)


def sum_groups(cards: Cards) -> None:
    """Count the containers on the cards of every group of each node; a card of no group counts its own."""
    groups, used = cards.group, cards.used_slots
    cards.group_used[:] = used
    if not groups.any():
        return
    if cards.node[0] != cards.node[-1]:
        _, groups = np.unique(cards.node * (groups.max() + 1) + groups, return_inverse=True)
    totals = np.bincount(groups, weights=used)[groups]
    np.copyto(cards.group_used, totals.astype(np.int64), where=cards.group != 0)
