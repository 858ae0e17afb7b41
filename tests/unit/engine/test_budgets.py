"""Which PodDisruptionBudgets protect a pod. Source: kube-scheduler's filterPodsWithPDBViolation, policy/v1."""

import msgspec
import pytest

from gpuloom.engine.state.budgets import MOST_CONDITIONS, MOST_IN_NAMESPACE, Budgets, is_asked
from gpuloom.wire.budgets import DisruptionBudget

WEB = {"app": "web", "tier": "front"}


def budget(name: str = "web", selector: object = None, *, allowed: int = 1, **status: object) -> DisruptionBudget:
    raw = {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"minAvailable": 1, "selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=DisruptionBudget)


def protecting(*budgets: DisruptionBudget, namespace: str = "ns", name: str = "p") -> tuple[str, ...]:
    book = Budgets()
    for one in budgets:
        book.apply(one)
    return book.protecting(namespace, name, WEB)


def expression(operator: str, *values: str, key: str = "app") -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "protects"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "back"}}, False),
        ({"matchLabels": {"app": "web"}, **expression("NotIn", "front", key="tier")}, False),
        (expression("In", "db", "web"), True),
        (expression("NotIn", "db"), True),
        (expression("NotIn", "db", key="absent"), True),
        (expression("Exists"), True),
        (expression("DoesNotExist"), False),
        ({}, True),
        (None, False),
    ],
)
def test_a_selector_selects_by_labels_and_an_empty_one_every_pod(selector: object, *, protects: bool) -> None:
    assert bool(protecting(budget(selector=selector))) == protects


def test_only_budgets_of_the_pods_own_namespace_count() -> None:
    assert protecting(budget(selector={}), namespace="other") == ()


def test_a_pod_that_is_evicted_already_is_not_counted_again() -> None:
    gone = budget(selector={}, disruptedPods={"p": None})
    assert protecting(gone) == ()
    assert protecting(gone, name="q") == ("ns/web",)


def test_a_pod_may_have_several_budgets_in_order_of_their_names() -> None:
    assert protecting(budget("b", {}), budget("a", {})) == ("ns/a", "ns/b")


def test_a_budget_that_goes_leaves_the_others_of_its_namespace() -> None:
    book = Budgets()
    for name in ("a", "b"):
        book.apply(budget(name, {}))
    book.delete("ns", "a")
    assert (book.protecting("ns", "p", WEB), book.allowed) == (("ns/b",), {"ns/b": 1})


def test_a_budget_that_cannot_be_read_any_more_lets_none_go() -> None:
    book = Budgets()
    for unreadable in (
        lambda: book.apply(budget(selector=expression("Near"), allowed=5)),
        lambda: book.apply_unreadable("ns", "web"),
    ):
        book.apply(budget(selector={}, allowed=5))
        unreadable()
        assert (book.protecting("ns", "p", WEB), book.allowed) == (("ns/web",), {})


def test_a_budget_that_was_one_too_many_counts_as_it_says_when_another_compares_less() -> None:
    book = Budgets()
    book.apply(budget("large", expression("In", *map(str, range(MOST_CONDITIONS - 1)))))
    book.apply(budget("small", {"matchLabels": {"app": "db"}}))
    assert book.protecting("ns", "p", WEB) == ("ns/small",)
    book.apply(budget("large", {"matchLabels": {"app": "db"}}))
    assert book.protecting("ns", "p", WEB) == ()


@pytest.mark.parametrize(
    ("selector", "asked"),
    [
        (None, True),
        ({"matchLabels": {"app": "web"}}, True),
        (expression("Near"), False),
        (expression("In", *map(str, range(MOST_CONDITIONS))), False),
    ],
    ids=["none", "of labels", "of an unknown operator", "too long"],
)
def test_a_budget_is_asked_that_can_be_read_and_compared(selector: object, *, asked: bool) -> None:
    assert is_asked(budget(selector=selector)) is asked


def test_what_cannot_be_read_protects_all_and_lets_none_go() -> None:
    many = {"matchLabels": {f"k{number}": "x" for number in range(MOST_CONDITIONS + 1)}}
    for unreadable in (expression("Gt", "1"), expression("Matches"), many):
        book = Budgets()
        book.apply(budget(selector=unreadable, allowed=5))
        assert book.protecting("ns", "p", {}) == ("ns/web",)
        assert book.allowed.get("ns/web", 0) == 0
    book = Budgets()
    book.apply_unreadable("ns", "bytes")
    assert book.protecting("ns", "p", {}) == ("ns/bytes",)


def test_more_budgets_than_are_read_protect_all_until_they_are_gone() -> None:
    book = Budgets()
    for number in range(MOST_IN_NAMESPACE + 50):
        book.apply(budget(f"b{number:03}", {"matchLabels": {"app": "other"}}))
    assert book.protecting("ns", "p", WEB) == (f"ns/b{MOST_IN_NAMESPACE}",)
    for number in range(MOST_IN_NAMESPACE + 50):
        book.delete("ns", f"b{number:03}")
    assert book.protecting("ns", "p", WEB) == ()
    assert book == Budgets()


def test_a_budget_that_was_one_too_many_counts_as_it_says_when_another_is_gone() -> None:
    book = Budgets()
    for number in range(MOST_IN_NAMESPACE + 1):
        book.apply(budget(f"b{number:03}", {"matchLabels": {"app": "other"}}, allowed=3))
    book.delete("ns", "b000")
    assert book.protecting("ns", "p", WEB) == ()
    assert book.allowed[f"ns/b{MOST_IN_NAMESPACE:03}"] == 3


def test_what_a_pod_is_compared_with_is_bounded_for_all_budgets_of_a_namespace_together() -> None:
    book = Budgets()
    values = [f"v{number}" for number in range(MOST_CONDITIONS // 2)]
    for name in ("a", "b", "c"):
        book.apply(budget(name, expression("In", *values)))
    assert book.protecting("ns", "p", WEB) == ("ns/b",)
    book.delete("ns", "a")
    book.apply(budget("b", expression("In", *values)))
    assert "ns/b" in book.allowed


def test_a_budget_counts_as_it_was_last_seen() -> None:
    book = Budgets()
    book.apply(budget(selector={}, allowed=2))
    book.apply(budget(selector={"matchLabels": {"app": "web"}}, allowed=-3))
    assert book.allowed == {"ns/web": 0}
    assert book.protecting("ns", "p", WEB) == ("ns/web",)
    book.delete("ns", "web")
    book.delete("ns", "web")
    assert (book.allowed, book.protecting("ns", "p", WEB)) == ({}, ())


@pytest.mark.parametrize("raw", [b'{"status": {"disruptionsAllowed": "many"}}', b'{"spec": {"selector": 5}}', b"[]"])
def test_a_budget_of_another_form_is_not_decoded(raw: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=DisruptionBudget)
