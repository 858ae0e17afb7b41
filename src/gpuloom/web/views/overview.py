"""The cluster in one look, and the quotas."""

from collections.abc import Iterator

import numpy as np

from gpuloom import __version__
from gpuloom.engine.explanation.values import Amount
from gpuloom.engine.ledger import Standing
from gpuloom.engine.table import NOBODY
from gpuloom.model.cards import Flags
from gpuloom.web.views.pods import pending_pods
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.values import ModelView, Overview, QuotaView


def view_overview(source: Source) -> Overview:
    """Sum up everything; names no pod."""
    state = source.state
    cards = state.cluster.table.cards
    mine = cards.node != NOBODY
    bound = sum(1 for one in state.cluster.ledger if one.standing is Standing.CONFIRMED)
    return Overview(
        version=__version__,
        scheduler=state.settings.scheduler_name,
        in_charge=state.is_in_charge,
        obstacle=state.obstacle,
        nodes=len(source.node_names()),
        nodes_with_cards=len(state.cluster.table.positions),
        cards=int(mine.sum()),
        unhealthy=int((mine & (cards.healthy == 0)).sum()),
        cordoned=int((mine & (cards.cordoned != 0)).sum()),
        idle=int((mine & (cards.used_slots == 0)).sum()),
        **_sums(source, mine),
        pods_bound=bound,
        pods_reserved=len(state.cluster.ledger) - bound,
        pods_pending=len(pending_pods(source)),
        models=tuple(_models(source, mine)),
    )


def list_quotas(source: Source, viewer: Viewer, namespace: str = "") -> Iterator[QuotaView]:
    """Give what namespaces hold and may hold, of the namespaces that may be seen."""
    state, profile = source.state, source.state.settings.profile
    names = profile.resources
    for one in sorted(source.namespaces()):
        if not viewer.sees(one) or namespace not in {"", one}:
            continue
        limits = state.cluster.quotas.limits(one)
        used = state.cluster.ledger.namespace_usage(one, profile.word)
        for resource, amount in ((names.memory, used.memory_mib), (names.cores, used.cores)):
            factor = max(profile.request.memory_factor, 1) if resource == names.memory else 1
            limit = limits.get(resource)
            if resource and (amount or limit is not None):
                yield QuotaView(
                    namespace=one,
                    resource=resource,
                    used=amount,
                    limit=None if limit is None else limit * factor,
                )


def _models(source: Source, mine: Flags) -> Iterator[ModelView]:
    table = source.state.cluster.table
    models: dict[str, list[int]] = {}
    for kind, (model, _) in enumerate(table.kinds):
        models.setdefault(model, []).append(kind)
    for model, kinds in sorted(models.items()):
        which = mine & np.isin(table.cards.kind, kinds)
        if which.any():
            nodes = len(np.unique(table.cards.node[which]))
            yield ModelView(model=model, cards=int(which.sum()), nodes=nodes, **_sums(source, which))


def _sums(source: Source, which: Flags) -> dict[str, Amount]:
    cards = source.state.cluster.table.cards
    columns = {
        "shares": (cards.used_slots, cards.count),
        "memory": (cards.used_memory_mib, cards.total_memory_mib),
        "cores": (cards.used_cores, cards.total_cores),
    }
    return {
        name: Amount(used=int(used[which].sum()), total=int(total[which].sum()))
        for name, (used, total) in columns.items()
    }
