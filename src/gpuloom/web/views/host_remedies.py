"""What would help a pod beside its cards, where kube-scheduler's filters keep it from nodes whose cards would do."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice

from gpuloom.engine.explanation.hosts import Shortages, suggest_less
from gpuloom.engine.explanation.node_remedies import suggest_node_remedies
from gpuloom.engine.explanation.removals import suggest_removal
from gpuloom.engine.explanation.values import Remedy
from gpuloom.web.views.hosts import CardsApart, Hosts
from gpuloom.web.views.source import Source
from gpuloom.wire.objects import Pod

_MOST_CLEARED = 3


def find_host_remedies(
    source: Source, pod: Pod, hosts: Hosts, cards: CardsApart, shortages: Shortages
) -> Generator[None, None, tuple[Remedy, ...]]:
    """Say in steps with what other conditions, or without whom, a node would take the pod; not where others wait."""
    kept = source.state.nominations.nodes_kept_from(pod.metadata.uid, pod.priority)
    names = [name for name in cards.fitting if name not in kept]
    short = {name: lacks for name, lacks in shortages.items() if name not in kept}
    failed = yield from hosts.find_failed_filters(source, names)
    nodes = source.state.shown.nodes
    labels_of = {name: nodes[name].labels for name in failed if name in nodes}
    remedies = (*suggest_node_remedies(failed, labels_of), *suggest_less(short))
    return (*remedies, *_suggest_removals(source, (yield from hosts.find_enough(source, short))))


def _suggest_removals(source: Source, enough: Mapping[str, Sequence[str]]) -> Iterator[Remedy]:
    """Name on some nodes a pod without which another would fit: one that has cards, as only those are known by name."""
    ledger = source.state.cluster.ledger
    for node, uids in islice(enough.items(), _MOST_CLEARED):
        held = next(filter(None, map(ledger.find, uids)), None)
        if held is not None:
            yield suggest_removal(node, [held])
