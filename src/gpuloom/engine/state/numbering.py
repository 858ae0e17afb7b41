"""What the columns of a card table say by number: models, groups and policies, and what nodes say of all their cards.

Values are only added, so a number means the same for ever, and in a fork too.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from gpuloom.model.nodecards import Facts

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(slots=True)
class Numbering:
    """Values, and the number of each.

    kinds  model and mode of cards
    facts  what nodes say of all their cards together; 0 for nothing
    """

    kinds: list[tuple[str, str]] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=lambda: [{}])
    _kind_numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    _facts_numbers: dict[str, int] = field(default_factory=lambda: {repr({}): 0})
    _words: dict[str, int] = field(default_factory=lambda: {"": 0})

    def fork(self) -> "Numbering":
        """Return one with these numbers. Facts and words, of which there may be very many, are the same in both."""
        return Numbering(self.kinds.copy(), self.facts, self._kind_numbers.copy(), self._facts_numbers, self._words)

    def number_kind(self, model: str, mode: str) -> int:
        """Return the number of a model and mode."""
        kind = model, mode
        return _number(self.kinds, self._kind_numbers, kind, kind)

    def number_facts(self, facts: Facts) -> int:
        """Return the number of what a node says of all its cards."""
        return _number(self.facts, self._facts_numbers, facts, repr(facts))

    def number_word(self, word: str) -> int:
        """Return the number of a group or a policy, 0 for none."""
        return self._words.setdefault(word, len(self._words))


def _number(known: list[_Value], numbers: dict[_Key, int], value: _Value, key: _Key) -> int:
    """Return the place of a value among those that are known, which it joins if it is new."""
    number = numbers.setdefault(key, len(known))
    if number == len(known):
        known.append(value)
    return number
