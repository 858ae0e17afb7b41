"""The picture as tables for a terminal or a plain text file. It computes nothing."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Group, OverflowMethod, RenderableType
from rich.table import Table
from rich.text import Text

from gpuloom.local.demo.picture import CardPicture, ClusterPicture, NodePicture, WaitingPod

_BAR_CELLS = 8


def render_picture(
    picture: ClusterPicture,
    *,
    title: str,
    hints: Sequence[str],
    notes: Sequence[str] = (),
    folds: bool = False,
    is_short: bool = False,
) -> RenderableType:
    """Lay out what else one may try, the story's title, who made room, the waiting pods, and all cards.

    ``notes`` are lines about moves. ``folds``: whether hints that are longer than a line go on in the next, as on a
    terminal, which would cut them off; in a file a hint is one line. ``is_short``: whether a node's cards are one line,
    for windows in which the table of all cards has no room.
    """
    # What a small window cuts off is the bottom.
    overflow: OverflowMethod = "fold" if folds else "ignore"
    parts: list[RenderableType] = [Text(hint, style="dim", no_wrap=not folds, overflow=overflow) for hint in hints]
    parts.append(Text(title, style="bold"))
    parts.extend(Text(f"{name} failed: {message}", style="red") for name, message in sorted(picture.failed.items()))
    parts.extend(Text(f"{one.pod}: {one.reason}: {one.message}", style="magenta") for one in picture.happened)
    parts.extend(Text(note, style="magenta") for note in notes)
    problems = [Text(f"{node.name}: {node.problem}", style="yellow") for node in picture.nodes if node.problem]
    if is_short:
        nodes = [_render_node(node) for node in picture.nodes if node.cards]
        heading = Text("cards by node, memory allocated", style="bold cyan")
        return Group(*parts, *problems, heading, *nodes, _render_waiting(picture.waiting))
    return Group(*parts, _render_waiting(picture.waiting), *problems, _render_cards(picture.nodes))


def draw_bar(used: int, total: int) -> str:
    """Draw a bar of fixed width; anything used shows, only full is full."""
    if not total:
        return "·" * _BAR_CELLS
    filled = min(used * _BAR_CELLS // total, _BAR_CELLS)
    if used and not filled:
        filled = 1
    return "█" * filled + "·" * (_BAR_CELLS - filled)


def shorten_uuid(uuid: str) -> str:
    """Keep the part of a card's UUID that tells cards apart at a glance: ``GPU-1afede84``."""
    return uuid[:12]


def _render_cards(nodes: Iterable[NodePicture]) -> RenderableType:
    # One table for all nodes takes fewer lines than one for each: a terminal cuts off what does not fit.
    table = _make_table("cards", "bold cyan")
    for heading in ("card", "model", "uuid", "health", "memory MiB", "cores %", "pods"):
        table.add_column(heading, no_wrap=heading != "pods")
    for node in nodes:
        for card in node.cards:
            table.add_row(*_card_cells(node.name, card), style="red" if card.is_overfull else None)
    return table


def _render_node(node: NodePicture) -> Text:
    """Say on one line how much of each card's memory is allocated."""
    line = Text(f"{node.name}  ", style="cyan", overflow="ellipsis", no_wrap=True)
    for model, cards in groupby(node.cards, lambda one: one.card.model):
        line.append(f"{model} ", style="default")
        for one in cards:
            percent = one.used.memory_mib * 100 // one.card.memory_mib if one.card.memory_mib else 0
            style = "red" if one.is_overfull or not one.card.healthy else "default"
            line.append(f" {percent}%" if one.card.healthy else " sick", style=style)
    return line


def _card_cells(node: str, picture: CardPicture) -> Iterable[str | Text]:
    card, used = picture.card, picture.used
    yield f"{node}/{card.index}"
    yield card.model
    yield shorten_uuid(card.id)
    yield Text("ok", style="green") if card.healthy else Text("sick", style="red")
    yield f"{draw_bar(used.memory_mib, card.memory_mib)} {used.memory_mib:>5}/{card.memory_mib}"
    yield f"{used.cores:>3}/{card.cores}"
    yield ", ".join(picture.pods)


def _render_waiting(waiting: Sequence[WaitingPod]) -> RenderableType:
    if not waiting:
        return Text("Nobody waits.", style="green")
    table = _make_table("waiting", "bold yellow")
    for heading in ("pod", "asks for", "why it waits"):
        table.add_column(heading)
    for pod in waiting:
        table.add_row(pod.name, pod.wishes, "\n".join(pod.reasons) or "(not tried yet)")
    return table


def _make_table(title: str, style: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style=style, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
