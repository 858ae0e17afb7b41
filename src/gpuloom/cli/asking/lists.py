"""``gpuloom top``, ``nodes``, ``cards``, ``pods``, ``pending``, ``quota``, ``workload``: what there is, who has it."""

from dataclasses import replace
from typing import Literal

from gpuloom.cli.asking.flags import (
    LISTING,
    NAMESPACE,
    OUTPUT,
    PENDING_LISTING,
    POD_LISTING,
    QUOTA_LISTING,
    SELECTOR,
    SOURCE,
    WORKLOAD_LISTING,
    ListFlags,
    NamespaceFlags,
    OutputFlags,
    PendingListFlags,
    PodListFlags,
    QuotaListFlags,
    SelectorFlags,
    SourceFlags,
    WorkloadListFlags,
)
from gpuloom.cli.asking.listing import check_listing, show_list
from gpuloom.cli.asking.printing import print_list, print_value, write_lines
from gpuloom.cli.asking.reader import Reader
from gpuloom.cli.asking.running import ask, choose_namespace, choose_node
from gpuloom.cli.asking.selecting import select_nodes, select_pods
from gpuloom.cli.asking.tables import CARDS, NODES, PENDING, PODS, QUOTAS, WORKLOAD, format_age_since, format_share
from gpuloom.cli.names import Name
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.names import choose_card
from gpuloom.engine.explanation.text import tell_cores
from gpuloom.web.views.values import CardView, Holder, NodeView, PendingView, PodView, UsedView

_STATES = Literal["all", "unhealthy", "cordoned", "idle", "used"]


def list_nodes(
    name: Name = "",
    /,
    *,
    chosen: SelectorFlags = SELECTOR,
    listing: ListFlags = LISTING,
    source: SourceFlags = SOURCE,
    form: OutputFlags = OUTPUT,
) -> None:
    """List nodes with what is given away of their cards, and why a node has none; of one node, every card.

    Parameters
    ----------
    name:
        Tell all about this node: its cards and who is on them.

    """
    _check_one(name, chosen, listing)

    async def question(reader: Reader) -> None:
        async def read() -> list[NodeView]:
            is_chosen = await select_nodes(source, chosen.selector)
            return [node for node in await reader.nodes() if is_chosen(node.name)]

        if not name:
            await show_list(reader, read, NODES.of(chosen.selector), listing, form)
            return
        detail = await reader.node(choose_node(name))
        if form.output in {"json", "yaml"}:
            print_value(detail, form.output)
            return
        print_list([detail.node], NODES, form)
        if form.output != "name":
            for card in detail.cards:
                write_lines(["", *_tell_card(card)])

    ask(source, question)


def list_cards(
    uuid: Name = "",
    /,
    *,
    node: Name = "",
    model: str = "",
    state: _STATES = "all",
    chosen: SelectorFlags = SELECTOR,
    listing: ListFlags = LISTING,
    source: SourceFlags = SOURCE,
    form: OutputFlags = OUTPUT,
) -> None:
    """List cards with what is given away of them; of one card, who is on it.

    Parameters
    ----------
    uuid:
        Tell who is on this card; the beginning of its UUID, card/UUID and NODE/INDEX will do.
    node:
        Only cards of this node.
    model:
        Only cards with this in the name of their model, whatever its case.
    state:
        Only cards like this; idle ones are healthy and open, and nobody is on them.

    """
    flags = [("--node", node), ("--model", model), ("--state", state != "all")]
    given = [name for name, is_given in flags if is_given]
    _check_one(uuid, chosen, listing, *given)
    has_choice = bool(given or chosen.selector)

    async def question(reader: Reader) -> None:
        async def read() -> list[CardView]:
            is_chosen = await select_nodes(source, chosen.selector)
            barred = {one.name for one in await reader.nodes() if one.problem} if state == "idle" else set[str]()
            return [
                card
                for card in await reader.cards()
                if (not node or card.node == node)
                and is_chosen(card.node)
                and card.node not in barred
                and model.lower() in card.model.lower()
                and _is_like(card, state)
            ]

        if uuid:
            card = await reader.card(await choose_card(uuid, reader.node))
            _print_card(card, form)
            return
        if node:
            await reader.node(node)  # refuses one that there is not
        table = replace(CARDS, empty="No card is like this.") if has_choice else CARDS
        await show_list(reader, read, table, listing, form)

    ask(source, question)


def list_pods(
    *,
    namespaces: NamespaceFlags = NAMESPACE,
    chosen: SelectorFlags = SELECTOR,
    listing: PodListFlags = POD_LISTING,
    source: SourceFlags = SOURCE,
    form: OutputFlags = OUTPUT,
) -> None:
    """List the pods that have cards: how much, where, since when."""

    async def question(reader: Reader) -> None:
        namespace = choose_namespace(namespaces, reader)

        async def read() -> list[PodView]:
            is_chosen = await select_pods(source, chosen.selector, namespace)
            return [pod for pod in await reader.pods(namespace) if is_chosen(pod)]

        await show_list(reader, read, PODS.of(chosen.selector, namespace), listing, form)

    ask(source, question)


def list_pending(
    *,
    namespaces: NamespaceFlags = NAMESPACE,
    chosen: SelectorFlags = SELECTOR,
    listing: PendingListFlags = PENDING_LISTING,
    source: SourceFlags = SOURCE,
    form: OutputFlags = OUTPUT,
) -> None:
    """List the pods that wait for cards, and why."""

    async def question(reader: Reader) -> None:
        namespace = choose_namespace(namespaces, reader)

        async def read() -> list[PendingView]:
            is_chosen = await select_pods(source, chosen.selector, namespace)
            return [pod for pod in await reader.pending(namespace) if is_chosen(pod)]

        await show_list(reader, read, PENDING.of(chosen.selector, namespace), listing, form)

    ask(source, question)


def list_quotas(
    *,
    namespaces: NamespaceFlags = NAMESPACE,
    listing: QuotaListFlags = QUOTA_LISTING,
    source: SourceFlags = SOURCE,
    form: OutputFlags = OUTPUT,
) -> None:
    """List what namespaces hold of cards and what their quotas leave."""

    async def question(reader: Reader) -> None:
        namespace = choose_namespace(namespaces, reader)
        await show_list(reader, lambda: reader.quotas(namespace), QUOTAS.of(namespace=namespace), listing, form)

    ask(source, question)


def list_workload(
    *, listing: WorkloadListFlags = WORKLOAD_LISTING, source: SourceFlags = SOURCE, form: OutputFlags = OUTPUT
) -> None:
    """List the shapes of pods that the policy fragmentation expects, the commonest first."""

    async def question(reader: Reader) -> None:
        await show_list(reader, reader.workload, WORKLOAD, listing, form)

    ask(source, question)


def _check_one(name: str, chosen: SelectorFlags, listing: ListFlags, *choosing: str) -> None:
    """Refuse flags that choose among many where one is named; ``choosing`` are those beside the usual ones."""
    check_listing(listing, name)
    given = ["a selector"] if chosen.selector else []
    if name and (given := [*given, *choosing]):
        raise CommandError(f"{name} cannot be given with {given[0]}: leave one of them out", ExitCode.USAGE)


def _is_like(card: CardView, state: _STATES) -> bool:
    return {
        "all": True,
        "unhealthy": not card.healthy,
        "cordoned": card.cordoned,
        "idle": card.healthy and not (card.shares.used or card.cordoned or card.closed),
        "used": bool(card.shares.used),
    }[state]


def _print_card(card: CardView, form: OutputFlags) -> None:
    match form.output:
        case "json" | "yaml":
            print_value(card, form.output)
        case "name":
            print_list([card], CARDS, form)
        case _:
            write_lines(_tell_card(card))


def _tell_card(card: CardView) -> list[str]:
    state = [] if card.healthy else ["unhealthy"]
    state += ["cordoned"] if card.cordoned else []
    state += ["closed"] if card.closed else []
    mode = f", mode {card.mode}" if card.mode else ""
    told = f": {', '.join(state)}" if state else ""
    amounts = {"memory (MiB)": card.memory, "cores": card.cores, "shares": card.shares}
    lines = [
        f"card {card.uuid} ({card.model}{mode}, index {card.index} of {card.node}){told}",
        f"  {', '.join(f'{name} {format_share(amount)}' for name, amount in amounts.items())}",
    ]
    lines += [f"  closed by pod {one.text}" for one in card.closed_by]
    return [*lines, *(f"  {_tell_holder(holder)}" for holder in card.holders)]


def _tell_holder(holder: Holder) -> str:
    containers = f" ({', '.join(holder.containers)})" if holder.containers else ""
    since = f", since {format_age_since(holder.since)}" if holder.since else ""
    part = f", as {holder.instance}" if holder.instance else ""
    return (
        f"{holder.pod.full_name}{containers}: {holder.memory_mib:,} MiB, {tell_cores(holder.cores)}{part}, "
        f"{holder.standing}{since}{_tell_use(holder.used)}"
    )


def _tell_use(used: UsedView | None) -> str:
    memory = f", uses {used.memory.used:,} MiB" if used and used.memory else ""
    load = f", load {used.busy_percent} %" if used and used.busy_percent is not None else ""
    return memory + load
