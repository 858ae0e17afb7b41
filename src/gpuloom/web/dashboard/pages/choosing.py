"""Nodes that somebody wants to see: by a text in their names, by their state, and by the model of their cards."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from gpuloom.web.dashboard.asked import Asked
from gpuloom.web.pacing import sift
from gpuloom.web.views.heat import Tile
from gpuloom.web.views.overview import find_nodes_with, list_models
from gpuloom.web.views.source import Source

_STATES: dict[str, Callable[[Tile], bool]] = {
    "free": lambda tile: tile.free > 0,
    "full": lambda tile: tile.is_full,
    "trouble": lambda tile: tile.needs_attention,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """What is asked for, and the models among which somebody may choose."""

    text: str
    show: str
    model: str
    models: tuple[str, ...]


def choose_nodes(
    source: Source, asked: Asked, tiles: Iterable[Tile]
) -> Generator[None, None, tuple[NodeFilter, list[Tile]]]:
    """Return what is asked for and the nodes that are like it."""
    models = yield from list_models(source)
    choice = NodeFilter(text=asked.option("q"), show=asked.option("show"), model=asked.option("model"), models=models)
    named = (yield from find_nodes_with(source, choice.model)) if choice.model else None
    is_like = _STATES.get(choice.show, _is_any)

    def is_wanted(tile: Tile) -> bool:
        return choice.text in tile.node and (named is None or tile.node in named) and is_like(tile)

    return choice, (yield from sift(tiles, is_wanted))


def _is_any(_: Tile) -> bool:
    return True
