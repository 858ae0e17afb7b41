"""A large cluster in few lines: by reason, by what nodes say, by groups of like nodes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

from gpuloom.engine.explanation.values import HostReason, NodeGroup, ReasonCount, RefusedNodes
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal

_NO_CARDS = "no cards known"


@dataclass(slots=True)
class Tally:
    """Counts reasons over nodes."""

    nodes: Counter[Reason] = field(default_factory=Counter)
    cards: Counter[Reason] = field(default_factory=Counter)

    def add(self, refusal: Refusal, times: int = 1) -> None:
        """Count a refusal that so many nodes share."""
        for reason, count in refusal.counts.items():
            self.nodes[reason] += times
            if refusal.total:
                self.cards[reason] += count * times

    def add_all(self, refusals: Mapping[str, Refusal]) -> Iterator[None]:
        """Count the refusals of nodes, one after the other: the first to look into one has it worked out."""
        # Equal refusals are mostly one object, so few are looked into.
        shared = Counter(map(id, refusals.values()))
        known = {id(refusal): refusal for refusal in refusals.values()}
        for key, times in shared.items():
            yield
            self.add(known[key], times)

    def counts(self) -> tuple[ReasonCount, ...]:
        """Return the counts, most nodes first."""
        order = sorted(self.nodes, key=lambda reason: (-self.nodes[reason], reason.word))
        return tuple(
            ReasonCount(reason=one.word, meaning=one.meaning, nodes=self.nodes[one], cards=self.cards[one])
            for one in order
        )


def count_reasons(refusals: Mapping[str, Refusal]) -> tuple[ReasonCount, ...]:
    """Count how many nodes and cards give which reason."""
    tally = Tally()
    for _ in tally.add_all(refusals):
        pass
    return tally.counts()


def group_refusals(
    refusals: Mapping[str, Refusal], causes: Mapping[str, str], most_names: int
) -> tuple[RefusedNodes, ...]:
    """Put together the nodes that say the same; ``causes`` is what is wrong with a node as a whole."""
    names: dict[str, list[str]] = {}
    for node, refusal in refusals.items():
        cause = causes.get(node, "")
        names.setdefault(f"{refusal.text}: {cause}" if cause else refusal.text, []).append(node)
    for node in causes.keys() - refusals.keys():
        names.setdefault(causes[node], []).append(node)
    order = sorted(names.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        RefusedNodes(text=text, nodes=len(nodes), names=tuple(nsmallest(most_names, nodes))) for text, nodes in order
    )


def group_nodes(
    table: CardTable, names: Iterable[str], refusals: Mapping[str, Refusal], barred: Mapping[str, str], most_names: int
) -> tuple[NodeGroup, ...]:
    """Put together the nodes that have the same cards."""
    members: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        members.setdefault(_signature(table, name), []).append(name)
    groups = []
    for kinds, nodes in members.items():
        tally = Tally()
        fitting = 0
        bars: Counter[str] = Counter()
        for node in nodes:
            if node in refusals:
                tally.add(refusals[node])
            elif node in barred:
                bars[barred[node]] += 1
            else:
                fitting += 1
        groups.append(
            NodeGroup(
                name=_name(table, kinds),
                nodes=len(nodes),
                fitting=fitting,
                reasons=tally.counts(),
                barred=tuple(HostReason(text=text, nodes=count) for text, count in bars.most_common()),
                names=tuple(nsmallest(most_names, nodes)),
            )
        )
    return tuple(sorted(groups, key=lambda group: (-group.fitting, -group.nodes, group.name)))


def _signature(table: CardTable, name: str) -> tuple[int, ...]:
    position = table.positions.get(name, NO_NODE)
    return tuple(sorted(table.cards.kind[table.rows_of(position)].tolist())) if position != NO_NODE else ()


def _name(table: CardTable, kinds: tuple[int, ...]) -> str:
    counts = Counter(table.kinds[kind] for kind in kinds)
    parts = [f"{count} x {model}{' (mig)' if mode == 'mig' else ''}" for (model, mode), count in sorted(counts.items())]
    return " + ".join(parts) or _NO_CARDS
