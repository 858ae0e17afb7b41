"""A large cluster in few lines: by reason, by what nodes say, by groups of like nodes."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from heapq import nsmallest

import numpy as np

from gpuloom.engine.explanation.values import HostReason, NodeGroup, ReasonCount, RefusedNodes
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.steps import run_to_end
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal

_NO_CARDS = "no cards known"


def count_in_steps(refusals: Iterable[Refusal]) -> Generator[None, None, tuple[ReasonCount, ...]]:
    """Count how many nodes and cards give which reason, most nodes first; each node has said one of the refusals."""
    nodes, cards = Counter[Reason](), Counter[Reason]()
    # Equal refusals are mostly one object, so few are looked into: who does so first has them worked out.
    for refusal, times in Counter(refusals).items():
        yield
        for reason, count in refusal.counts.items():
            nodes[reason] += times
            if refusal.total:
                cards[reason] += count * times
    order = sorted(nodes, key=lambda reason: (-nodes[reason], reason.word))
    return tuple(ReasonCount(reason=one.word, meaning=one.meaning, nodes=nodes[one], cards=cards[one]) for one in order)


def count_reasons(refusals: Iterable[Refusal]) -> tuple[ReasonCount, ...]:
    """Count the same at once."""
    return run_to_end(count_in_steps(refusals))


def group_refusals(
    refusals: Mapping[str, Refusal], causes: Mapping[str, str], most_names: int
) -> tuple[RefusedNodes, ...]:
    """Put together the nodes that say the same; ``causes`` is what is wrong with a node as a whole."""
    names: dict[str, list[str]] = {}
    for node in {**refusals, **causes}:
        said = (refusals[node].text if node in refusals else "", causes.get(node, ""))
        names.setdefault(": ".join(filter(None, said)), []).append(node)
    order = sorted(names.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        RefusedNodes(text=text, nodes=len(nodes), names=tuple(nsmallest(most_names, nodes))) for text, nodes in order
    )


def group_nodes(
    table: CardTable, names: Iterable[str], refusals: Mapping[str, Refusal], barred: Mapping[str, str], most_names: int
) -> Generator[None, None, tuple[NodeGroup, ...]]:
    """Put together in steps the nodes that have the same cards."""
    members: dict[tuple[int, ...], list[str]] = {}
    for name, kinds in _list_kinds(table, names):
        members.setdefault(kinds, []).append(name)
    yield
    groups = []
    for kinds, nodes in members.items():
        refused = [refusals[node] for node in nodes if node in refusals]
        bars = Counter(barred[node] for node in nodes if node in barred and node not in refusals)
        groups.append(
            NodeGroup(
                name=_name(table, kinds),
                nodes=len(nodes),
                fitting=len(nodes) - len(refused) - bars.total(),
                reasons=(yield from count_in_steps(refused)),
                barred=tuple(HostReason(text=text, nodes=count) for text, count in bars.most_common()),
                names=tuple(nsmallest(most_names, nodes)),
            )
        )
    return tuple(sorted(groups, key=lambda group: (-group.fitting, -group.nodes, group.name)))


def _list_kinds(table: CardTable, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Give each node with the kinds of its cards, in order of the kinds."""
    kinds, size = table.cards.kind.tobytes(), table.cards.kind.itemsize
    starts, ends = (table.starts * size).tolist(), (table.ends * size).tolist()
    in_order: dict[bytes, tuple[int, ...]] = {}
    for name in names:
        position = table.positions.get(name, NO_NODE)
        of_node = kinds[starts[position] : ends[position]] if position != NO_NODE else b""
        if of_node not in in_order:
            in_order[of_node] = tuple(sorted(np.frombuffer(of_node, table.cards.kind.dtype).tolist()))
        yield name, in_order[of_node]


def _name(table: CardTable, kinds: tuple[int, ...]) -> str:
    counts = Counter(table.kinds[kind] for kind in kinds)
    parts = [f"{count} x {model}{' (mig)' if mode == 'mig' else ''}" for (model, mode), count in sorted(counts.items())]
    return " + ".join(parts) or _NO_CARDS
