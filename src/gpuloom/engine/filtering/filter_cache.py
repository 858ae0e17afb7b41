"""The filter results of the equivalence classes that were asked about last."""

from collections.abc import Iterator

from gpuloom.engine.bounded import LruCache
from gpuloom.engine.filtering.card_only_results import CardOnlyResults
from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.filtering.equivalence_class import EquivalenceClass
from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.filtering.fragmentation_ranks import FragmentationRanks
from gpuloom.engine.filtering.fragmentation_view import FragmentationView
from gpuloom.engine.filtering.hooked_results import HookedResults
from gpuloom.engine.filtering.stranded import StrandedByNode, list_stranded
from gpuloom.engine.scoring.fragmentation.workload import WHOLE
from gpuloom.engine.scoring.fragmentation_policy import FragmentationPolicy
from gpuloom.engine.state.card_table import CardTable

MOST_CLASSES = 128
"""A class takes about 140 KB at 5,000 nodes of eight cards, 460 KB if it asks by percentage."""


class FilterCache:
    """Remembers filter results by equivalence class."""

    def __init__(self, compiled: CompiledProfile) -> None:
        self.compiled = compiled
        self._by_class: LruCache[EquivalenceClass, FilterResults] = LruCache(MOST_CLASSES)
        self.forget_all()

    def all(self) -> tuple[FilterResults, ...]:
        """Return what is remembered; the class asked about last comes last."""
        return self._by_class.values()

    def measure_stranded(self, table: CardTable) -> float | None:
        """Return how many cards' worth of what is free a typical pod cannot use, None where no pod's policy asks."""
        view = self._refresh_view(table)
        return None if view is None else float(view.stranded().sum()) / WHOLE

    def list_stranded(self, table: CardTable) -> StrandedByNode | None:
        """Return the same node by node, and why; None where no pod's policy asks."""
        view = self._refresh_view(table)
        return None if view is None else list_stranded(view, table)

    def _refresh_view(self, table: CardTable) -> FragmentationView | None:
        if not self._view.generation:
            return None
        self._view.refresh(table)
        return self._view

    def forget_all(self) -> None:
        """Forget everything; the next decisions look at all cards again."""
        self._by_class.clear()
        self._card_only = CardOnlyResults(self.compiled.rules)
        self._view = FragmentationView(self.compiled.profile)

    def compute(self, table: CardTable, equivalence_class: EquivalenceClass, *, ranks: bool = True) -> FilterResults:
        """Return the results for a class without remembering them; see :meth:`recall`."""
        return _bring_up(self._make(equivalence_class), table, ranks=ranks)

    def recall(self, table: CardTable, equivalence_class: EquivalenceClass, *, ranks: bool = True) -> FilterResults:
        """Return the results for a class, up to date; without ``ranks`` the ranks of some nodes may be missing."""
        return _bring_up(self._find(equivalence_class), table, ranks=ranks)

    def begin(self, table: CardTable, equivalence_class: EquivalenceClass) -> Iterator[None] | None:
        """Bring the results for a class up to date as far as that is quick; return the steps that are left, if any."""
        if equivalence_class.selector.names_uuids:
            return None
        results = self._find(equivalence_class)
        return results.finish(table) if results.begin(table) else None

    def settle(self, table: CardTable, equivalence_class: EquivalenceClass) -> FilterResults | None:
        """Return what :meth:`recall` does if that is quick, None otherwise: then :meth:`begin` has the steps."""
        results = self._find(equivalence_class)
        is_slow = results.begin(table)
        if is_slow and not equivalence_class.selector.names_uuids:
            return None
        for _ in results.finish(table):
            pass
        return results

    def _find(self, equivalence_class: EquivalenceClass) -> FilterResults:
        if equivalence_class.selector.names_uuids:
            # A pod that names cards is hardly followed by others that name the same.
            return self._make(equivalence_class)
        return self._by_class.recall(equivalence_class, lambda: self._make(equivalence_class))

    def _make(self, equivalence_class: EquivalenceClass) -> FilterResults:
        make = HookedResults if self.compiled.is_hooked else FilterResults
        results = make(equivalence_class, self.compiled, self._card_only)
        policy = equivalence_class.node_policy
        if isinstance(policy, FragmentationPolicy):
            results.ranks_of_all = FragmentationRanks(self._view, equivalence_class.request, policy.cpu_milli)
        return results


def _bring_up(results: FilterResults, table: CardTable, *, ranks: bool) -> FilterResults:
    """Bring results up to date; ranks may take much longer than what they follow from."""
    results.begin(table)
    if ranks:
        for _ in results.finish(table):
            pass
    return results
