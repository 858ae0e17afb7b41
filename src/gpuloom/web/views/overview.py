"""The cluster in one look, and the quotas."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Literal

import msgspec
import numpy as np

from gpuloom import __version__
from gpuloom.engine.explanation.cores import CoreUnit, in_per_cent, unit_of_cores
from gpuloom.engine.explanation.values import Amount
from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.engine.state.ledger import Ledger, ReservationStatus
from gpuloom.model.cards import BY_ADMINISTRATOR, BY_UNREADABLE, Cards
from gpuloom.scheduler.metrics.idle import count_idle_cards
from gpuloom.scheduler.state import SchedulerState
from gpuloom.vendors.profile import Profile
from gpuloom.web.views.pods import find_pending
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.stranded import NOT_KNOWN, stranded_in_all
from gpuloom.web.views.used import use_of_all
from gpuloom.web.views.values import ModelView, Overview, QuotaView

_PODS_A_STEP = 200
_NODES_A_STEP = 200
_Unit = Literal["MiB"] | CoreUnit


def view_overview(source: Source) -> Generator[None, None, Overview]:
    """Sum up everything, in steps; names no pod."""
    state = source.state
    pending = yield from find_pending(source)
    models = yield from _models(source)
    bound = yield from _count_bound(state.cluster.ledger)
    idle = yield from _count_idle(state)
    cards = list(_every_card(source))
    stranded = stranded_in_all(source)
    return Overview(
        version=__version__,
        scheduler=state.settings.scheduler_name,
        in_charge=state.charge.is_ours,
        obstacle=state.charge.obstacle,
        nodes=len(source.node_names()),
        nodes_with_cards=len(list(state.cluster.nodes)),
        cards=sum(len(one) for one in cards),
        unhealthy=sum(int((one.healthy == 0).sum()) for one in cards),
        cordoned=sum(int((one.cordoned & BY_ADMINISTRATOR != 0).sum()) for one in cards),
        closed=sum(int((one.cordoned >= BY_UNREADABLE).sum()) for one in cards),
        idle=idle,
        **_sums(cards),
        pods_bound=bound,
        pods_reserved=max(len(state.cluster.ledger) - bound, 0),
        pods_pending=len(pending),
        models=tuple(models),
        used=use_of_all(source),
        why_not_used=source.book.why_not,
        stranded=stranded,
        why_not_stranded="" if stranded else NOT_KNOWN,
    )


def _count_bound(ledger: Ledger) -> Generator[None, None, int]:
    bound = 0
    for number, one in enumerate(list(ledger)):
        if number % _PODS_A_STEP == 0:
            yield
        bound += one.status is ReservationStatus.CONFIRMED
    return bound


def _count_idle(state: SchedulerState) -> Generator[None, None, int]:
    idle = 0
    for number, sample in enumerate(count_idle_cards(state.cluster, state.shown.nodes)):
        if number % _NODES_A_STEP == 0:
            yield
        idle += int(sample[1]) if sample else 0
    return idle


def _every_card(source: Source) -> Iterator[Cards]:
    """Give the cards of each vendor that belong to a node, cores in per cent of a card."""
    for profile, table in source.tables():
        yield _tell_cores(profile, table.cards.rows(table.cards.node != NO_NODE))


def _tell_cores(profile: Profile, cards: Cards) -> Cards:
    used, total = in_per_cent(profile, cards.used_cores, cards.total_cores)
    return msgspec.structs.replace(cards, used_cores=used, total_cores=total)


def list_quotas(source: Source, viewer: Viewer, namespace: str = "") -> Iterator[QuotaView]:
    """Give what namespaces hold and may hold, of the namespaces that may be seen."""
    quotas, ledger = source.state.cluster.quotas, source.state.cluster.ledger
    units = _find_units(source.state.settings.catalog)
    for one in sorted(source.namespaces()):
        if not viewer.sees(one) or namespace not in {"", one}:
            continue
        limits = quotas.limits(one)
        for resource, (unit, factor) in units.items():
            used, limit = quotas.used(one, resource, ledger), limits.get(resource)
            if used or limit is not None:
                yield QuotaView(
                    namespace=one,
                    resource=resource,
                    unit=unit,
                    used=used,
                    limit=None if limit is None else limit * factor,
                )


def _find_units(catalog: Iterable[Profile]) -> Mapping[str, tuple[_Unit, int]]:
    """Return the unit of each resource that a quota can limit, and its factor; where chips share one, the first's."""
    units: dict[str, tuple[_Unit, int]] = {}
    for profile in catalog:
        units.setdefault(profile.resources.memory, ("MiB", max(profile.request.memory_factor, 1)))
        units.setdefault(profile.resources.cores, (unit_of_cores(profile), 1))
    units.pop("", None)
    return units


def _models(source: Source) -> Generator[None, None, list[ModelView]]:
    """Return each model once, in order."""
    models = yield from _find_models(source)
    views = []
    for model, found in sorted(models.items(), key=itemgetter(0)):
        yield
        nodes = {name for names, cards in found for name in _names_of(names, cards)}
        cards = [one for _, one in found]
        views.append(ModelView(model=model, cards=sum(len(one) for one in cards), nodes=len(nodes), **_sums(cards)))
    return views


def list_models(source: Source) -> Generator[None, None, tuple[str, ...]]:
    """Return the models of which there are cards, in order."""
    models: set[str] = set()
    for table in source.state.cluster.tables:
        yield
        counts = np.bincount(table.cards.kind[table.cards.node != NO_NODE])
        models.update(table.kinds[kind][0] for kind in np.flatnonzero(counts).tolist())
    return tuple(sorted(models))


def find_nodes_with(source: Source, model: str) -> Generator[None, None, set[str]]:
    """Return the nodes that have cards of a model."""
    found = (yield from _find_models(source)).get(model, [])
    return {name for names, cards in found for name in _names_of(names, cards)}


def _find_models(source: Source) -> Generator[None, None, dict[str, list[tuple[Sequence[str], Cards]]]]:
    """Find the cards of each model, and the names of nodes; cores in per cent of a card.

    Two vendors may call cards alike.
    """
    models: dict[str, list[tuple[Sequence[str], Cards]]] = {}
    for profile, table in source.tables():
        kinds: dict[str, list[int]] = {}
        for kind, (model, _) in enumerate(table.kinds):
            kinds.setdefault(model, []).append(kind)
        for model, numbers in kinds.items():
            yield
            which = (table.cards.node != NO_NODE) & np.isin(table.cards.kind, numbers)
            if which.any():
                models.setdefault(model, []).append((table.names, _tell_cores(profile, table.cards.rows(which))))
    return models


def _names_of(names: Sequence[str], cards: Cards) -> Iterator[str]:
    """Give the nodes that cards are on; without np.unique, whose first call imports for 40 ms."""
    return (names[position] for position in np.flatnonzero(np.bincount(cards.node)).tolist())


def _sums(cards: Sequence[Cards]) -> dict[str, Amount]:
    columns = {
        "shares": ("used_slots", "count"),
        "memory": ("used_memory_mib", "total_memory_mib"),
        "cores": ("used_cores", "total_cores"),
    }
    return {
        name: Amount(
            used=sum(int(getattr(one, used).sum()) for one in cards),
            total=sum(int(getattr(one, total).sum()) for one in cards),
        )
        for name, (used, total) in columns.items()
    }
