"""Cores as people are told of them: in per cent of a card, also where a profile says that its numbers are none.

They may be bits of a mask, or units of which each card has its own number: those are counted, and told in per cent of
all that the card has, rounded up so that nothing held is told as nothing.
"""

from typing import Literal

import numpy as np

from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.cards import WHOLE_CARD, Ints
from gpuloom.model.request import Request
from gpuloom.model.uuids import card_id
from gpuloom.vendors.profile import Profile

CoreUnit = Literal["%", "core", "compute unit"]


def unit_of_cores(profile: Profile) -> CoreUnit:
    """Return in which unit the vendor's cards give cores out, which is the one in which quotas count them."""
    if profile.fit.bits:
        return "core"
    return "compute unit" if profile.share.scaled_cores else "%"


def in_per_cent(profile: Profile, used: Ints, total: Ints) -> tuple[Ints, Ints]:
    """Return what of the cores of cards is used, and what there is, in per cent of each card."""
    if unit_of_cores(profile) == "%":
        return used, total
    there = _count(profile, total)
    return _scale(_count(profile, used), there), _scale(there, there)


def asked_in_per_cent(profile: Profile, asked: Ints, total: Ints) -> Ints:
    """Return so many units of the cores, never a mask, in per cent of each card; ``total`` is as registered."""
    return asked if unit_of_cores(profile) == "%" else _scale(asked, _count(profile, total))


def count_asked(profile: Profile, request: Request) -> int:
    """Return what counts of the cores that are asked for: of more than a card has, a whole card (scheduler 6.3).

    Vendors that work out what a card must give do so from what is asked.
    """
    return request.cores if profile.fit.need else min(request.cores, WHOLE_CARD)


def share_in_per_cent(cluster: ClusterState, node: str, word: str, uuid: str, cores: int) -> int:
    """Return what is held of the cores of one card, in per cent of it.

    Of a card that is gone nobody knows how many it had: what is held is taken for all of them.
    """
    profile = cluster.catalog[word]
    if unit_of_cores(profile) == "%":
        return cores
    table = cluster[word].table
    row = table.row(node, card_id(uuid))
    total = cores if row is None else int(table.cards.total_cores[row])
    used, _ = in_per_cent(profile, np.array([cores]), np.array([total]))
    return int(used[0])


def _count(profile: Profile, cores: Ints) -> Ints:
    return np.bitwise_count(cores).astype(np.int64) if profile.fit.bits else cores


def _scale(units: Ints, there: Ints) -> Ints:
    return -(-WHOLE_CARD * units // np.maximum(there, 1))
