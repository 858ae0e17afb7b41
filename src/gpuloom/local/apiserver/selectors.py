"""Label and field selectors, parsed as kube-apiserver parses them.

A selector that cannot be parsed raises :class:`ApiStatusError` (400) with the real server's sentence.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuloom.local.apiserver.kinds import FIELD_DEFAULTS, Kind
from gpuloom.local.apiserver.objects import labels_of, look_up
from gpuloom.local.apiserver.statuses import ApiStatusError, bad_request

TOKEN = re.compile(r"\s*(==|!=|[(),!=<>]|[^\s(),!=<>]+)")
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
SYMBOLS = frozenset({"(", ")", ",", "!", "=", "==", "!=", "<", ">"})
OPERATORS = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether labels fulfil the term; an absent label fulfils ``!=`` and ``notin``."""
        return _OPERATIONS[self.operator](labels.get(self.key), self.values)


def _compare(value: str | None, bound: str) -> int | None:
    try:
        return None if value is None else int(value) - int(bound)
    except ValueError:
        return None


_OPERATIONS: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "in": lambda value, values: value in values,
    "notin": lambda value, values: value not in values,
    "exists": lambda value, _: value is not None,
    "!": lambda value, _: value is None,
    ">": lambda value, values: (_compare(value, values[0]) or 0) > 0,
    "<": lambda value, values: (_compare(value, values[0]) or 0) < 0,
}
_SYNONYMS = {"=": "in", "==": "in", "!=": "notin"}


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector."""

    path: str
    value: str
    equal: bool

    def matches(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object fulfils the term."""
        return (_field(value, self.path) == self.value) == self.equal


def _field(value: Mapping[str, Any], path: str) -> str:
    found = look_up(value, path)
    if found is None:
        return FIELD_DEFAULTS.get(path, "")
    return str(found).lower() if isinstance(found, bool) else str(found)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of one kind a request is about."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def has_selectors(self) -> bool:
        """Whether more than the namespace narrows it."""
        return bool(self.labels or self.fields)

    def matches(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object belongs to the selection."""
        if self.namespace and value["metadata"].get("namespace") != self.namespace:
            return False
        if self.labels:
            labels = labels_of(value)
            if not all(term.matches(labels) for term in self.labels):
                return False
        return all(term.matches(value) for term in self.fields)


def parse_selection(kind: Kind, *, namespace: str, label_selector: str, field_selector: str) -> Selection:
    """Build a selection from the parameters of a list, watch or deletecollection."""
    return Selection(namespace, parse_labels(label_selector), parse_fields(kind, field_selector))


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector, equality and set based."""
    if not text.strip():
        return ()
    return tuple(_LabelParser(text).parse())


class _LabelParser:
    """Recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens = TOKEN.findall(text)
        self._position = 0

    def parse(self) -> Iterator[Requirement]:
        while True:
            yield self._requirement()
            symbol = self._take()
            if not symbol:
                return
            if symbol != ",":
                raise bad_request(f"found '{symbol}', expected: ',' or 'end of string'")

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self) -> str:
        symbol = self._peek()
        self._position += 1
        return symbol

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._key(), "!")
        key = self._key()
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        return Requirement(key, *self._operation())

    def _key(self) -> str:
        symbol = self._take()
        if not symbol or symbol in SYMBOLS:
            raise _unparsed(f"found '{symbol}', expected: identifier")
        if not LABEL_KEY.fullmatch(symbol):
            raise _unparsed(f'<nil>: Invalid value: "{symbol}": not a label key')
        return symbol

    def _operation(self) -> tuple[str, tuple[str, ...]]:
        operator = self._take()
        if operator in ("in", "notin"):
            return operator, self._list()
        if operator in _SYNONYMS:
            return _SYNONYMS[operator], (self._value(),)
        if operator in (">", "<"):
            return operator, (self._number(),)
        raise _unparsed(f"found '{operator}', expected: {OPERATORS}")

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        return _checked(self._take())

    def _number(self) -> str:
        symbol = self._take()
        if _compare(symbol, "0") is None:
            raise _unparsed(f"for 'Gt', 'Lt' operators, the value must be an integer: \"{symbol}\"")
        return symbol

    def _list(self) -> tuple[str, ...]:
        symbol = self._take()
        if symbol != "(":
            raise _unparsed(f"found '{symbol}' expected: '('")
        values = [self._value_in_list()]
        while (symbol := self._take()) == ",":
            values.append(self._value_in_list())
        if symbol != ")":
            raise _unparsed(f"found '{symbol}', expected: ',' or ')'")
        return tuple(values)

    def _value_in_list(self) -> str:
        return "" if self._peek() in (",", ")") else _checked(self._take())


def _checked(value: str) -> str:
    if value in SYMBOLS or not LABEL_VALUE.fullmatch(value):
        raise _unparsed(f'<nil>: Invalid value: "{value}": not a label value')
    return value


def _unparsed(why: str) -> ApiStatusError:
    return bad_request(f"unable to parse requirement: {why}")


def parse_fields(kind: Kind, text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector; a path that the kind does not offer is refused."""
    return tuple(_field_term(kind, text, term) for term in text.split(",") if term)


def _field_term(kind: Kind, text: str, term: str) -> FieldTerm:
    path, operator, value = _split_field(text, term)
    if path not in {"metadata.name", *(["metadata.namespace"] if kind.namespaced else []), *kind.fields}:
        raise bad_request(f"field label not supported: {path}")
    return FieldTerm(path, value, equal=operator != "!=")


def _split_field(text: str, term: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        path, found, value = term.partition(operator)
        if found:
            return path, operator, value
    raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")


def matches_label_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Evaluate a LabelSelector object; none and an empty one match everything."""
    if not selector:
        return True
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_expression(one, labels) for one in selector.get("matchExpressions") or ())


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    operator = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}[expression["operator"]]
    values: Sequence[str] = expression.get("values") or ()
    return Requirement(expression["key"], operator, tuple(values)).matches(labels)
