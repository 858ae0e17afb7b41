"""PodDisruptionBudgets: which of them protect a pod, and how many pods each lets go now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from gpuloom.engine.hostfit.selectors import count_compared, meets
from gpuloom.wire.budgets import DisruptionBudget, LabelSelector
from gpuloom.wire.hostpods import LabelRequirement

MOST_IN_NAMESPACE = 100
MOST_CONDITIONS = 1000
"""So many budgets of a namespace, and so many conditions and values of all of them, are read; what comes beyond is not.
Each is compared with every pod of the namespace that might leave.
"""
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@dataclass(frozen=True, slots=True)
class _Budget:
    """A budget as it is asked.

    conditions  all of which a pod's labels must fulfil; None where it selects nobody
    gone        names of pods that are evicted already and counted in what it allows
    size        how many conditions and values a pod is compared with
    allowed     how many pods it lets go now
    """

    conditions: tuple[LabelRequirement, ...] | None
    gone: frozenset[str] = frozenset()
    size: int = 0
    allowed: int = 0

    def protects(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.conditions is None or name in self.gone:
            return False
        return all(meets(one, labels) for one in self.conditions)


@dataclass(slots=True)
class _Namespace:
    """The budgets of a namespace, by name: those that are asked, those that are when others go, and unreadable ones."""

    read: dict[str, _Budget] = field(default_factory=dict)
    surplus: dict[str, _Budget] = field(default_factory=dict)
    unreadable: dict[str, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.read or self.surplus or self.unreadable)

    def drop(self, name: str) -> None:
        for budgets in (self.read, self.surplus, self.unreadable):
            budgets.pop(name, None)

    def has_room_for(self, budget: _Budget) -> bool:
        size = sum(one.size for one in self.read.values()) + budget.size
        return len(self.read) < MOST_IN_NAMESPACE and size <= MOST_CONDITIONS


@dataclass(slots=True)
class Budgets:
    """All budgets. One that cannot be read protects every pod of its namespace, and lets none go.

    allowed  how many pods each lets go now, by ``namespace/name``; one that is not named lets none go
    """

    allowed: dict[str, int] = field(default_factory=dict)
    _namespaces: dict[str, _Namespace] = field(default_factory=dict)

    def apply(self, budget: DisruptionBudget) -> None:
        """Take a budget as it is now."""
        known = self._namespaces.setdefault(budget.namespace, _Namespace())
        known.drop(budget.name)
        self.allowed.pop(_key(budget.namespace, budget.name), None)
        conditions, gone = _read_selector(budget.spec.selector), frozenset(budget.status.disrupted_pods or ())
        allowed = max(budget.status.disruptions_allowed, 0)
        read = _Budget(conditions, gone, count_compared(conditions or ()), allowed)
        if not _is_readable(conditions or ()):
            known.unreadable[budget.name] = None
        elif known.has_room_for(read):
            self._read(budget.namespace, budget.name, read)
        elif read.size <= MOST_CONDITIONS and len(known.surplus) < MOST_IN_NAMESPACE:
            known.surplus[budget.name] = read
        else:
            known.unreadable[budget.name] = None
        self._read_surplus(budget.namespace)

    def apply_unreadable(self, namespace: str, name: str) -> None:
        """Take that a budget is there that cannot be decoded."""
        self.delete(namespace, name)
        self._namespaces.setdefault(namespace, _Namespace()).unreadable[name] = None

    def _read_surplus(self, namespace: str) -> None:
        """Ask budgets for which there is room."""
        known = self._namespaces[namespace]
        for name, budget in list(known.surplus.items()):
            if known.has_room_for(budget):
                self._read(namespace, name, known.surplus.pop(name))

    def _read(self, namespace: str, name: str, budget: _Budget) -> None:
        self._namespaces[namespace].read[name] = budget
        self.allowed[_key(namespace, name)] = budget.allowed

    def delete(self, namespace: str, name: str) -> None:
        """Take that a budget is gone; safe to call twice."""
        self.allowed.pop(_key(namespace, name), None)
        if known := self._namespaces.get(namespace):
            known.drop(name)
            self._read_surplus(namespace)
            if not known:
                del self._namespaces[namespace]

    def protecting(self, namespace: str, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the budgets that protect a pod, by ``namespace/name``; of those that cannot be read, the first."""
        known = self._namespaces.get(namespace)
        if known is None:
            return ()
        found = [budget for budget, one in known.read.items() if one.protects(name, labels)]
        return tuple(
            _key(namespace, budget) for budget in sorted([*found, *islice(chain(known.surplus, known.unreadable), 1)])
        )


def is_asked(budget: DisruptionBudget) -> bool:
    """Tell whether a budget can be asked at all; of any other one it matters only that it is there."""
    conditions = _read_selector(budget.spec.selector) or ()
    return _is_readable(conditions) and count_compared(conditions) <= MOST_CONDITIONS


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _read_selector(selector: LabelSelector | None) -> tuple[LabelRequirement, ...] | None:
    """Return the conditions; none at all select every pod of the namespace, no selector none."""
    return None if selector is None else tuple(_each_condition(selector))


def _each_condition(selector: LabelSelector) -> Iterator[LabelRequirement]:
    for key, value in (selector.match_labels or {}).items():
        yield LabelRequirement(key, "In", (value,))
    yield from selector.match_expressions or ()


def _is_readable(conditions: Sequence[LabelRequirement]) -> bool:
    return all(one.operator in _OPERATORS for one in conditions)
