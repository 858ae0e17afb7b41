"""``gpuloom top``: how much of the cluster's cards is given away and, where monitors can be reached, really used."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from gpuloom.cli.asking.flags import (
    LISTING,
    OUTPUT,
    SELECTOR,
    SOURCE,
    ListFlags,
    OutputFlags,
    SelectorFlags,
    SourceFlags,
)
from gpuloom.cli.asking.listing import show_list
from gpuloom.cli.asking.printing import Column, Table, print_value, write_lines
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.running import ask
from gpuloom.cli.asking.selecting import select_nodes
from gpuloom.cli.asking.sorting import sort_items
from gpuloom.cli.asking.tables import MODELS, draw_bar, format_share
from gpuloom.cli.asking.utilization import CardUtilization, Uses, read_shown, sum_uses
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.clusters import open_cluster
from gpuloom.client.installation import read_service_flag
from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.values import Amount
from gpuloom.model.cardname import write_card_name
from gpuloom.web.views.values import CardView, ModelView, Overview

What = Literal["models", "nodes", "cards"]


class Used(msgspec.Struct, frozen=True):
    """A node or a card: what is given away of it, and what is used of it, None where nobody says.

    name  the node's, or NODE/INDEX, which several cards may have: indexes count by vendor, or are all 0 (csv7)
    id    the node's name, or the card's UUID, which two nodes may claim
    """

    name: str
    id: str
    model: str
    memory: Amount
    cores: Amount
    use: CardUtilization | None = None


def _tell(amount: int | None) -> str:
    return "unknown" if amount is None else f"{amount:,}"


USED: Table[Used] = Table(
    (
        Column("NAME", lambda one: one.name),
        Column("MODEL", lambda one: one.model),
        Column("MEMORY GIVEN(MiB)", lambda one: f"{draw_bar(one.memory)} {format_share(one.memory)}"),
        Column("MEMORY USED(MiB)", lambda one: _tell(one.use.memory_mib if one.use else None)),
        Column("CORES GIVEN(%)", lambda one: format_share(one.cores)),
        Column("BUSY(%)", lambda one: _tell(one.use.busy if one.use else None)),
    ),
    lambda one: one.name,
    "No node has registered a card: see gpuloom nodes.",
    id=lambda one: f"{one.name}/{one.id}",
)


def show_top(
    what: What = "models",
    /,
    *,
    chosen: SelectorFlags = SELECTOR,
    listing: ListFlags = LISTING,
    source: SourceFlags = SOURCE,
    form: OutputFlags = OUTPUT,
) -> None:
    """Show how much is given away, by model, node or card; and how much is really used, as the monitors say.

    Parameters
    ----------
    what:
        What to sum over; nodes and cards come with what is really used, if the nodes' monitors can be reached.

    """
    if what == "models" and chosen.selector:
        raise CommandError("--selector chooses nodes: give top nodes or top cards", ExitCode.USAGE)
    problems: set[str] = set()

    async def question(reader: Reader) -> None:
        if what == "models":
            await _show_models(reader, listing, form)
            return
        await show_list(
            reader,
            lambda: _read_used(reader, what, source, chosen.selector, problems),
            replace(USED, empty=f"No node with labels {chosen.selector} has a card.") if chosen.selector else USED,
            listing,
            form,
        )

    ask(source, question)


async def _show_models(reader: Reader, listing: ListFlags, form: OutputFlags) -> None:
    first = await reader.overview()
    if form.output in {"json", "yaml"} and not listing.watch:
        print_value(first, form.output)
        return
    sort_items(first.models, listing.sort_by)
    if form.output in {"table", "wide"} and not form.no_headers:
        write_lines([*_sum_up(first), ""])
    known = [first]

    async def read() -> Sequence[ModelView]:
        return (known.pop() if known else await reader.overview()).models

    await show_list(reader, read, MODELS, listing, form)


async def _read_used(reader: Reader, what: What, source: SourceFlags, selector: str, told: set[str]) -> list[Used]:
    """Ask for what is given away and used; what keeps us from knowing the latter is told once."""
    is_chosen = await select_nodes(source, selector)
    cards = [card for card in await reader.cards() if is_chosen(card.node)]
    uses = await _find_uses(reader, source, cards)
    if uses.problem and uses.problem not in told:
        sys.stderr.write(f"gpuloom: what is really used is not known: {uses.problem}\n")
        told.add(uses.problem)
    return _by_node(cards, uses) if what == "nodes" else [tell_used(card, uses) for card in cards]


async def _find_uses(reader: Reader, source: SourceFlags, cards: list[CardView]) -> Uses:
    """Take what the scheduler's pages show; where they know nothing, ask the monitors."""
    shown = {card.uuid: use for card in cards if (use := read_shown(card))}
    if shown:
        return Uses(shown, (await reader.overview()).why_not_used if len(shown) < len(cards) else "")
    if source.snapshot:
        return Uses({}, "a recording does not tell")
    from gpuloom.cli.asking.usage import read_uses  # noqa: PLC0415 - of models nobody asks it

    async with open_cluster(source.way) as (client, _):
        return await read_uses(client, read_service_flag(source.service))


def _sum_up(overview: Overview) -> list[str]:
    broken = [f"{overview.unhealthy:,} unhealthy"] if overview.unhealthy else []
    broken += [f"{overview.cordoned:,} cordoned"] if overview.cordoned else []
    broken += [f"{overview.closed:,} closed"] if overview.closed else []
    states = ", ".join([f"{overview.idle:,} idle", *broken])
    cards = tell_count(overview.cards, "card")
    pods = f"pods: {overview.pods_bound:,} with cards, {overview.pods_reserved:,} being bound"
    return [
        f"{cards} on {overview.nodes_with_cards:,} of {tell_count(overview.nodes, 'node')}: {states}",
        f"{pods}, {overview.pods_pending:,} waiting",
    ]


def tell_used(card: CardView, uses: Uses) -> Used:
    """Say what is given away of a card, and what is used of it."""
    name = write_card_name(card.node, card.index)
    return Used(name, card.uuid, card.model, card.memory, card.cores, uses.by_uuid.get(card.uuid))


def _by_node(cards: list[CardView], uses: Uses) -> list[Used]:
    nodes: dict[str, list[CardView]] = {}
    for card in cards:
        nodes.setdefault(card.node, []).append(card)
    return [
        Used(
            node,
            node,
            ",".join(dict.fromkeys(card.model for card in found)),
            _sum([card.memory for card in found]),
            _sum([card.cores for card in found]),
            sum_uses(uses.by_uuid[card.uuid] for card in found if card.uuid in uses.by_uuid),
        )
        for node, found in nodes.items()
    ]


def _sum(amounts: list[Amount]) -> Amount:
    return Amount(used=sum(amount.used for amount in amounts), total=sum(amount.total for amount in amounts))
