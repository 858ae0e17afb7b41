"""``gpuloom top``: how much of the cluster's cards is given away and, where monitors can be reached, really used."""

import sys
from dataclasses import dataclass
from typing import Literal

from gpuloom.cli.asking.clusters import open_cluster
from gpuloom.cli.asking.flags import OUTPUT, SOURCE, OutputFlags, SourceFlags
from gpuloom.cli.asking.printing import Column, Table, print_list, print_value, write_lines
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.running import ask
from gpuloom.cli.asking.tables import MODELS, draw_bar, format_share
from gpuloom.cli.asking.utilization import CardUtilization, Uses, sum_uses
from gpuloom.engine.explanation.values import Amount
from gpuloom.web.views.values import CardView, Overview

What = Literal["models", "nodes", "cards"]


@dataclass(frozen=True, slots=True)
class Used:
    """A node or a card: what is given away of it, and what is used of it, None where nobody says."""

    name: str
    model: str
    memory: Amount
    cores: Amount
    use: CardUtilization | None = None


_TABLE: Table[Used] = Table(
    (
        Column("NAME", lambda one: one.name),
        Column("MODEL", lambda one: one.model),
        Column("MEMORY GIVEN", lambda one: f"{draw_bar(one.memory)} {format_share(one.memory)}"),
        Column("MEMORY USED", lambda one: f"{one.use.memory_mib:,}" if one.use else "unknown"),
        Column("CORES GIVEN", lambda one: format_share(one.cores)),
        Column("BUSY", lambda one: f"{one.use.busy}%" if one.use else "unknown"),
    ),
    lambda one: one.name,
    "No node has registered a card: see gpuloom nodes.",
)


def show_top(what: What = "models", /, *, source: SourceFlags = SOURCE, form: OutputFlags = OUTPUT) -> None:
    """Show how much is given away, by model, node or card; and how much is really used, as the monitors say.

    Parameters
    ----------
    what:
        What to sum over; nodes and cards come with what is really used, if the nodes' monitors can be reached.

    """

    async def question(reader: Reader) -> None:
        if what == "models":
            _show_overview(await reader.overview(), form)
            return
        cards = await reader.cards()
        uses = await _find_uses(source)
        if uses.problem:
            sys.stderr.write(f"gpuloom: what is really used is not known: {uses.problem}\n")
        print_list(_by_node(cards, uses) if what == "nodes" else [_of_card(card, uses) for card in cards], _TABLE, form)

    ask(source, question)


async def _find_uses(source: SourceFlags) -> Uses:
    if source.snapshot:
        return Uses({}, "a recording does not tell")
    from gpuloom.cli.asking.usage import read_uses  # noqa: PLC0415 - of models nobody asks it

    async with open_cluster(source) as (client, _):
        return await read_uses(client)


def _show_overview(overview: Overview, form: OutputFlags) -> None:
    if form.output in {"json", "yaml"}:
        print_value(overview, form)
        return
    if form.output != "name" and not form.no_headers:
        write_lines([*_tell(overview), ""])
    print_list(overview.models, MODELS, form)


def _tell(overview: Overview) -> list[str]:
    broken = [f"{overview.unhealthy:,} unhealthy"] if overview.unhealthy else []
    broken += [f"{overview.cordoned:,} cordoned"] if overview.cordoned else []
    broken += [f"{overview.closed:,} closed"] if overview.closed else []
    states = ", ".join([f"{overview.idle:,} idle", *broken])
    pods = f"pods: {overview.pods_bound:,} with cards, {overview.pods_reserved:,} being bound"
    return [
        f"{overview.cards:,} cards on {overview.nodes_with_cards:,} of {overview.nodes:,} nodes: {states}",
        f"{pods}, {overview.pods_pending:,} waiting",
    ]


def _of_card(card: CardView, uses: Uses) -> Used:
    name = f"{card.node}/{card.index}"
    return Used(name, card.model, card.memory, card.cores, uses.by_uuid.get(card.uuid))


def _by_node(cards: list[CardView], uses: Uses) -> list[Used]:
    nodes: dict[str, list[CardView]] = {}
    for card in cards:
        nodes.setdefault(card.node, []).append(card)
    return [
        Used(
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
