"""From the watch of PodDisruptionBudgets to what plans know of them."""

import msgspec
from unit.engine.test_budgets import WEB, budget

from gpuloom.engine.state.budgets import MOST_CONDITIONS, Budgets
from gpuloom.kube import Unreadable
from gpuloom.scheduler.watch.budgets import BudgetHandler
from gpuloom.wire.objects import ObjectMeta

EVERY_POD: dict[str, object] = {}


def test_a_new_list_takes_away_what_is_not_in_it() -> None:
    book = Budgets()
    handler = BudgetHandler(book)
    assert not handler.is_listed
    handler.replace([budget("a", EVERY_POD), budget("b", EVERY_POD)], [])
    handler.replace([budget("b", EVERY_POD, allowed=3)], [])
    assert (handler.is_listed, book.allowed) == (True, {"ns/b": 3})
    handler.delete(budget("b"))
    assert book.protecting("ns", "p", WEB) == ()


def test_a_budget_that_cannot_be_read_protects_all_of_its_namespace_until_it_can_or_is_gone() -> None:
    book = Budgets()
    handler = BudgetHandler(book)
    handler.replace([], [find_unreadable("bad")])
    assert book.protecting("ns", "p", WEB) == ("ns/bad",)
    handler.apply(budget("bad", {"matchLabels": {"app": "db"}}))
    assert book.protecting("ns", "p", WEB) == ()
    handler.take_unreadable(find_unreadable("bad"))
    handler.replace([], [])
    assert book.protecting("ns", "p", WEB) == ()


def test_a_very_long_budget_of_a_list_is_kept_short_and_protects_all_of_its_namespace() -> None:
    """trust T-02"""
    book = Budgets()
    handler = BudgetHandler(book)
    long = budget("long", {"matchLabels": {f"l{number}": "" for number in range(10 * MOST_CONDITIONS)}})
    kept = [handler.shorten(one) for one in (long, budget("short", {"matchLabels": {"app": "db"}}, allowed=2))]
    assert all(len(msgspec.json.encode(one)) < 300 for one in kept)
    handler.replace(kept, [])
    assert (book.protecting("ns", "p", WEB), book.allowed) == (("ns/long",), {"ns/short": 2})


def find_unreadable(name: str) -> Unreadable:
    return Unreadable(ObjectMeta(name=name, namespace="ns"), msgspec.Raw(b"{}"), "for a test")
