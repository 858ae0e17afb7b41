"""A vendor's profile as the engine uses it: its rules, and the hooks where the common rules do not do."""

from dataclasses import dataclass
from functools import cached_property

from gpuloom.engine.filtering.rule_table import RuleOrder, select_rules
from gpuloom.engine.request.demand import PlacementPreferences
from gpuloom.engine.request.options import Options, ScoreSlots
from gpuloom.vendors.hooks import NEED, SCORE, SELECT, RequestHook, ScoreHook, SelectionHook
from gpuloom.vendors.profile import Profile

_TENANCY = frozenset({"class", "policy", "class-full"})
"""Checks that ask with whom a pod shares cards."""

_NEUTRAL = 10_000.0
"""A score of this weight decides before everything else."""


@dataclass(frozen=True)
class CompiledProfile:
    """A vendor's profile with everything looked up that it names.

    request_hook  what a card must give, ``selection_hook`` how cards are chosen, ``score`` what is added to a node's
                  score; None for the common rules
    sign          by which factor that counts where the lowest score wins, and where it does not
    score_slots   what a card's score counts as slots
    """

    profile: Profile
    rules: RuleOrder
    request_hook: RequestHook | None
    selection_hook: SelectionHook | None
    score: ScoreHook | None
    sign: tuple[float, float]
    score_slots: ScoreSlots

    # Every decision asks several times.
    @cached_property
    def is_hooked(self) -> bool:
        """Whether single cards do not decide: a hook chooses, scores, or asks who shares them."""
        hooks = (self.request_hook, self.selection_hook, self.score)
        return any(hook is not None for hook in hooks) or not _TENANCY.isdisjoint(self.profile.fit.checks)

    @cached_property
    def adjusts_requests(self) -> bool:
        """Whether a card of this vendor may have to give something else than what is asked for."""
        share = self.profile.share
        return self.is_hooked or share.memory_mib >= 0 or share.cores >= 0

    def links_cards(self, preferences: PlacementPreferences) -> bool:
        """Whether several cards are chosen by how well they are linked."""
        return preferences.card_policy.topology and self.profile.fit.topology


def compile_profile(profile: Profile, options: Options) -> CompiledProfile:
    """Look up what a profile names."""
    fit = profile.fit
    match profile.score.sign:
        case "neutral":
            sign = (-_NEUTRAL, _NEUTRAL)
        case "better-is-higher" if options.topology_score_sign == "fixed":
            sign = (-1.0, 1.0)
        case _:
            sign = (1.0, 1.0)
    return CompiledProfile(
        profile=profile,
        rules=select_rules(fit.checks),
        request_hook=NEED.get(fit.need),
        selection_hook=SELECT.get(fit.select),
        score=SCORE.get(profile.score.hook),
        sign=sign,
        score_slots=options.device_score_slots,
    )
