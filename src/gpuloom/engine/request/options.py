"""How the engine decides where the sources of its behaviour differ: one value, the same in live process and replay."""

from dataclasses import dataclass
from typing import Literal

from gpuloom.engine.scoring.card_order import DeviceSort

ScoreSlots = Literal["nums", "one"]
QuotaInFit = Literal["all", "hami"]
ScoreSign = Literal["fixed", "upstream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Defaults of policies, and switches (scheduler 10).

    device_sort         whether cards are tried by NUMA node or by score first (D-01)
    device_score_slots  whether a card's score counts the cards asked for or one slot (D-03)
    quota_in_fit        whether quotas count for every vendor's cards or only where HAMi looks at them (D-47)
    topology_score_sign whether well linked cards are better under every policy (D-44)
    """

    node_policy: str = "binpack"
    card_policy: str = "spread"
    device_sort: DeviceSort = "numa-first"
    device_score_slots: ScoreSlots = "nums"
    quota_in_fit: QuotaInFit = "all"
    topology_score_sign: ScoreSign = "fixed"
