"""A vendor's profile as the engine uses it: its rules, and the hooks where the common rules do not do."""

from dataclasses import dataclass
from functools import cached_property

from gpuloom.engine.demand import Choice
from gpuloom.engine.options import Options
from gpuloom.engine.rules import RuleOrder, select_rules
from gpuloom.vendors.hooks import NEED, SCORE, SELECT, Score, Selector, WorkOutNeed
from gpuloom.vendors.profile import Profile

_TENANCY = frozenset({"class", "policy", "class-full"})
"""Checks that ask with whom a pod shares cards."""

_NEUTRAL = 10_000.0
"""A score of this weight decides before everything else."""


@dataclass(frozen=True)
class Family:
    """One vendor.

    work_out_need  what a card must give, ``selector`` how cards are chosen, ``score`` what a node is worth beside;
                   None for the common rules
    sign           by which factor that worth counts under the policy ``spread``, and under others
    """

    profile: Profile
    rules: RuleOrder
    work_out_need: WorkOutNeed | None
    selector: Selector | None
    score: Score | None
    sign: tuple[float, float]

    # Every decision asks several times.
    @cached_property
    def is_hooked(self) -> bool:
        """Whether decisions need more than verdicts on single cards."""
        hooks = (self.work_out_need, self.selector, self.score)
        return any(hook is not None for hook in hooks) or not _TENANCY.isdisjoint(self.profile.fit.checks)

    @cached_property
    def is_particular(self) -> bool:
        """Whether a card of this vendor may have to give something else than what is asked for."""
        share = self.profile.share
        return self.is_hooked or share.memory_mib >= 0 or share.cores >= 0

    def links_cards(self, choice: Choice) -> bool:
        """Whether several cards are chosen by how well they are linked."""
        return choice.card_policy.topology and self.profile.fit.topology


def make_family(profile: Profile, options: Options, rules: RuleOrder | None = None) -> Family:
    """Look up what a profile names."""
    fit = profile.fit
    match profile.score.sign:
        case "neutral":
            sign = (-_NEUTRAL, _NEUTRAL)
        case "better-is-higher" if options.topology_score_sign == "fixed":
            sign = (-1.0, 1.0)
        case _:
            sign = (1.0, 1.0)
    return Family(
        profile=profile,
        rules=rules or select_rules(fit.checks),
        work_out_need=NEED.get(fit.need),
        selector=SELECT.get(fit.select),
        score=SCORE.get(profile.score.hook),
        sign=sign,
    )
