"""What is stranded, and why, in words."""

from gpuloom.web.views.values import StrandedView

_CAUSES = {
    "no_cpu": "too little CPU is free",
    "pieces": "pieces are too small or too few",
    "other_models": "other models are asked for",
    "no_cards": "some pods ask for no cards",
}
"""By field; what can be done something about comes first."""
_LEAST_TOLD = 0.005
"""Cards; less than this reads as nothing."""


def tell_part(seen: StrandedView) -> str:
    """Say which part of what is free is stranded."""
    return f"{100 * seen.cards / seen.free:.0f} %" if seen.free >= _LEAST_TOLD else "nothing is free"


def tell_cause(seen: StrandedView) -> str:
    """Say why most of it is stranded, nothing where nothing is."""
    if seen.cards < _LEAST_TOLD:
        return ""
    return _CAUSES[max(_CAUSES, key=lambda name: getattr(seen, name))]


def tell_causes(seen: StrandedView) -> str:
    """Say how much is stranded for which cause, the most first; nothing where nothing is."""
    amounts = sorted(((getattr(seen, name), words) for name, words in _CAUSES.items()), key=lambda one: -one[0])
    return "; ".join(f"{cards:,.2f}: {words}" for cards, words in amounts if cards >= _LEAST_TOLD)
