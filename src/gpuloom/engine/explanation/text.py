"""An explanation as lines of plain text, for terminals and recordings."""

from collections.abc import Iterator

from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.hosts import tell_host, tell_taking
from gpuloom.engine.explanation.values import (
    CardVerdict,
    ContainerRequest,
    Explanation,
    Given,
    Held,
    NodeVerdict,
    Policy,
    VendorVerdict,
)
from gpuloom.model.cardname import write_card_name
from gpuloom.model.uuids import card_id

VENDORS_TITLE = "what each vendor says, all of which must do on one node"
_MOST_ALSO = 3
_MOST_ASKS = 3
_MOST_REASONS = 2
_MOST_SHARES = 4
_OF_THE_POD = ("asks ", "would ")
"""How notes begin whose subject is the pod."""


def tell_briefly(explanation: Explanation, *, listed: str = "") -> Iterator[str]:
    """Tell it in two sentences: where the pod can run, and the one thing that says most about why.

    listed  how to see all that a pod has, where that is too much for a sentence
    """
    yield f"pod {explanation.pod.full_name} {explanation.headline}."
    if why := _tell_most(explanation, listed):
        yield f"{why[0].upper()}{why[1:]}{'' if why.endswith('?') else '.'}"


def _tell_most(explanation: Explanation, listed: str) -> str:
    remedy = f"it {explanation.remedies[0].text}" if explanation.remedies else ""
    if explanation.held is not None and explanation.held.shares:
        return f"it has {'; '.join(_name_shares(explanation, explanation.held, listed))}"
    if explanation.outcome in {"fits", "held back"} and explanation.fitting and not explanation.notes:
        more = len(explanation.asks) - _MOST_ASKS
        told = [*map(tell_ask, explanation.asks[:_MOST_ASKS])]
        why = "; ".join([*told, f"and {tell_count(more, 'more container')}"] if more > 0 else told)
    else:
        why = "; ".join(filter(None, _tell_refusals(explanation)))
    return "; ".join(filter(None, (why, remedy)))


def _name_shares(explanation: Explanation, held: Held, listed: str) -> Iterator[str]:
    """Name what the pod has, each container once and cards as lists name them; not all of very many shares."""
    of_home = (card for node in explanation.nodes if node.name == held.node for card in node.cards)
    places = {card.uuid: f"{write_card_name(held.node, card.index)} " for card in of_home}
    shown = held.shares if len(held.shares) <= _MOST_SHARES else held.shares[:1]
    before = None
    for share in shown:
        whom = "" if share.container == before else f"for {share.container}: "
        before = share.container
        yield f"{whom}{places.get(card_id(share.uuid), '')}{_tell_share(share)}"
    if more := len(held.shares) - len(shown):
        yield f"and {more:,} more{f' ({listed})' if listed else ''}"


def _tell_refusals(explanation: Explanation) -> list[str]:
    """Say what keeps the pod away: cards or a note first where no node's cards would do, otherwise kube-scheduler."""
    note = explanation.notes[0] if explanation.notes else ""
    cards = f"it {note}" if note.startswith(_OF_THE_POD) else note or _count_reasons(explanation)
    host = explanation.host
    if host is None or host.taking or not host.reasons:
        return [cards]
    if not host.with_cards:
        return [cards, tell_taking(host)]
    # A note that names a resource which no node has says it better than "Insufficient" does.
    is_told = all(one.text.removeprefix("Insufficient ") in note for one in (*host.reasons, *host.further))
    return [cards] if is_told else [tell_taking(host), cards]


def _count_reasons(explanation: Explanation) -> str:
    return ", ".join(
        f"{tell_count(count.nodes, 'node')}: {count.meaning}" for count in explanation.reasons[:_MOST_REASONS]
    )


def tell_explanation(explanation: Explanation) -> Iterator[str]:
    """Tell it from the whole to the details; lines without line ends, details are indented."""
    yield f"pod {explanation.pod.full_name} {explanation.headline}"
    yield from (f"  {tell_ask(ask)}{f' of {ask.vendor}' if explanation.vendors else ''}" for ask in explanation.asks)
    if explanation.host is not None:
        yield from (f"  {line}" for line in tell_host(explanation.host))
    yield from _tell_held(explanation)
    yield from (f"  note: {note}" for note in explanation.notes)
    if explanation.vendors:
        yield VENDORS_TITLE + ":"
        yield from (f"  {tell_vendor(one)}" for one in explanation.vendors)
    yield from _tell_ranking(explanation)
    yield from _tell_reasons(explanation)
    yield from _tell_groups(explanation)
    if explanation.remedies:
        yield "what would help, one of:"
        yield from (f"  {remedy.text}" for remedy in explanation.remedies)
    if explanation.nodes:
        left = explanation.candidates - len(explanation.nodes)
        shown = tell_count(len(explanation.nodes), "node")
        held = " without this pod" if explanation.held is not None and explanation.held.shares else ""
        yield f"cards{held}:" if left <= 0 else f"cards{held} of {shown} ({left:,} more: name them with --node):"
    for node in explanation.nodes:
        yield from _tell_node(node)


def tell_ask(ask: ContainerRequest) -> str:
    """Say what a container asks for."""
    if ask.core_count:
        return f"{ask.phase} container {ask.container} asks for {tell_count(ask.core_count, 'core')}"
    if ask.memory_mib:
        memory = f"{ask.memory_mib:,} MiB"
    elif ask.memory_percentage:
        memory = f"{ask.memory_percentage} % of the memory"
    else:
        memory = "no memory"
    cards = tell_count(ask.cards, "card")
    each = " each" if ask.cards > 1 else ""
    cores = tell_cores(ask.cores)
    return f"{ask.phase} container {ask.container} asks for {cards}, {memory} and {cores}{each}"


def tell_cores(percent: int) -> str:
    """Say how much of a card's cores somebody may use; whoever names none may use them all."""
    return f"{percent} % of the cores" if percent else "no limit of cores"


def tell_vendor(verdict: VendorVerdict) -> str:
    """Say what one of several vendors says."""
    cards = f"{verdict.vendor}: {tell_count(verdict.cards, 'card')}"
    if verdict.standing == "held":
        return f"{cards} held"
    reasons = ", ".join(f"{count.reason} {count.nodes:,}" for count in verdict.reasons)
    return (
        f"{cards}, {verdict.standing}: would do on {verdict.fitting:,} of "
        f"{tell_count(verdict.candidates, 'node')}{f'; {reasons}' if reasons else ''}"
    )


def tell_policy(policy: Policy) -> str:
    """Say how nodes and cards are chosen."""
    cards = f"; cards {', then '.join(policy.cards)}" if policy.cards else ""
    numa = "; all cards of one NUMA node" if policy.numa_bind else ""
    uneven = {name: weight for name, weight in policy.weights.items() if weight != 1}
    weights = f"; weights {', '.join(f'{name} {weight}' for name, weight in uneven.items())}" if uneven else ""
    return f"nodes by {policy.node}{cards}{numa}{weights}"


def _tell_held(explanation: Explanation) -> Iterator[str]:
    if explanation.held is None:
        return
    yield f"has on node {explanation.held.node}:"
    yield from (f"  {share.container}: {_tell_share(share)}" for share in explanation.held.shares)


def _tell_share(share: Given) -> str:
    part = f" as {share.instance}" if share.instance else ""
    return f"{share.uuid}{part}: {share.memory_mib:,} MiB, {tell_cores(share.cores)}"


def _tell_ranking(explanation: Explanation) -> Iterator[str]:
    if explanation.policy is not None and explanation.ranking:
        others = "other " if explanation.held is not None else ""
        yield f"{others}fitting nodes, best first ({tell_policy(explanation.policy)}):"
        yield from (f"  {ranked.node}: score {ranked.score:.2f}" for ranked in explanation.ranking)
        more = count_ranked(explanation) - len(explanation.ranking)
        if more > 0:
            yield f"  and {more:,} more"


def count_ranked(explanation: Explanation) -> int:
    """Count the nodes that fit, without the one that the pod is on: it is not ranked."""
    held = explanation.held
    fits_at_home = held is not None and all(node.fits for node in explanation.nodes if node.name == held.node)
    return explanation.fitting - (1 if fits_at_home else 0)


def _tell_reasons(explanation: Explanation) -> Iterator[str]:
    if explanation.reasons:
        yield "why nodes do not fit:"
    for count in explanation.reasons:
        cards = f", {tell_count(count.cards, 'card')}" if count.cards else ""
        yield f"  {count.reason}: {tell_count(count.nodes, 'node')}{cards} ({count.meaning})"
    for refused in explanation.refused:
        more = refused.nodes - len(refused.names)
        names = ", ".join(refused.names) + (f" and {more:,} more" if more > 0 else "")
        yield f"  {names}: {refused.text}"


def _tell_groups(explanation: Explanation) -> Iterator[str]:
    if explanation.candidates <= len(explanation.nodes) or not explanation.groups:
        return
    yield "by cards of the node:"
    for group in explanation.groups:
        told = [f"{count.reason} {count.nodes:,}" for count in group.reasons]
        reasons = ", ".join([*told, *(f"{one.text} {one.nodes:,}" for one in group.barred)])
        yield f"  {group.name}: {group.fitting:,} of {group.nodes:,} nodes fit{f'; {reasons}' if reasons else ''}"


def _tell_node(node: NodeVerdict) -> Iterator[str]:
    state = "fits" if node.fits else node.refusal or "left out"
    yield f"  {node.name}: {state}{f' ({_tell_score(node)})' if node.cards else ''}"
    yield from (f"    {cause}" for cause in node.causes)
    several = len({card.numa for card in node.cards}) > 1
    yield from (f"    {_tell_card(node.name, card, with_numa=several)}" for card in node.cards)


def _tell_score(of: NodeVerdict | CardVerdict) -> str:
    parts = " + ".join(f"{part.name} {part.points:.2f}" for part in of.score_parts)
    return f"score {of.score:.2f}{parts and f' = {parts}'}"


def _tell_card(node: str, card: CardVerdict, *, with_numa: bool) -> str:
    which = f"{'*' if card.chosen else '-'} {write_card_name(node, card.index)} {card.uuid} {card.model}"
    numa = f", NUMA node {card.numa}" if with_numa else ""
    used = (
        f"{card.memory.used:,}/{card.memory.total:,} MiB, {card.cores.used}/{card.cores.total} %, "
        f"{card.shares.used}/{card.shares.total} shares{numa}"
    )
    if not card.reason:
        return f"{which} ({used}): fits, {_tell_score(card)}"
    why = f" ({card.why})" if card.why else ""
    also = f"; also {', '.join(card.also[:_MOST_ALSO])}" if card.also else ""
    closed = f"; closed by pod {'; and by pod '.join(one.text for one in card.closed_by)}" if card.closed_by else ""
    return f"{which} ({used}): {card.reason}{why}{also}{closed}"
