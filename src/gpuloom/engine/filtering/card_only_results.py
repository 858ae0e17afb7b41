"""What those rules say that look at the card alone: the same for all equivalence classes, so worked out once."""

import numpy as np

from gpuloom.engine.filtering.rule_table import RuleOrder
from gpuloom.engine.filtering.rules import filter_cards
from gpuloom.engine.state.card_table import NEVER, CardTable
from gpuloom.model.cards import RuleCodes
from gpuloom.model.request_columns import RequestColumns


class CardOnlyResults:
    """The results of these rules for all cards of one table.

    column  by row, position of the first of these rules that rejects the card, 0 for none
    """

    def __init__(self, rules: RuleOrder) -> None:
        self.column: RuleCodes = np.zeros(0, np.uint8)
        self._rules = rules.card_only
        self._seen = NEVER

    def refresh(self, table: CardTable, required: RequestColumns) -> None:
        """Bring the results up to date with the table; these rules do not look at the request, so any one will do."""
        changed = table.changed_since(self._seen)
        if changed is None or len(changed) > table.few:
            self.column = filter_cards(table.cards, required, self._rules)
        else:
            for position in changed:
                rows = table.rows_of(position)
                self.column[rows] = filter_cards(table.cards.rows(rows), required.rows(rows), self._rules)
        self._seen = table.version
