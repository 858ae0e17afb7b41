"""What the rules say that look at the card alone: the same for all shapes, and so worked out once for all of them."""

import numpy as np

from gpuloom.engine.rules import Positions, RuleOrder, judge, judge_one
from gpuloom.engine.table import CardTable
from gpuloom.model.want import Want


class CommonVerdicts:
    """Those verdicts on all cards of one table.

    column  by row, position of the first of these rules that rejects the card, 0 for none
    """

    def __init__(self, rules: RuleOrder) -> None:
        self.column: Positions = np.zeros(0, np.uint8)
        self._rules = rules.common
        self._asked = [(position, rule.rejects) for position, rule in rules.common]
        self._registrations = -1
        self._mark = -1

    def refresh(self, table: CardTable, want: Want) -> None:
        """Bring the verdicts up to date with the table; these rules do not look at the want, so any one will do."""
        changed = table.changed_since(self._mark, self._registrations)
        if changed is None or len(changed) > table.few:
            self.column = judge(table.cards, want, self._rules)
        else:
            for position in changed:
                verdicts = [judge_one(card, want, self._asked) for card in table.cards_of(position)]
                self.column[table.rows_of(position)] = verdicts
        self._registrations, self._mark = table.registrations, table.journal.mark
