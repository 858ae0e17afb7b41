"""trust T-15: which leases of other schedulers are in the way, by what was seen of them."""

import pytest

from gpuloom.scheduler.leadership.rivals import MOST_ELSEWHERE, RivalLeases
from gpuloom.wire.objects import Lease, LeaseSpec, ObjectMeta

OWN = ("gpu-system", "hami-scheduler")
NAME = "hami-scheduler"


def lease(namespace: str, renewed: str = "1", *, holder: str = "hami_1", duration_s: int | None = 15) -> Lease:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=duration_s, renew_time=renewed)
    return Lease(metadata=ObjectMeta(name=NAME, namespace=namespace), spec=spec)


def make_rivals(*leases: Lease) -> RivalLeases:
    rivals = RivalLeases(OWN, frozenset({"kube-system"}))
    rivals.expect([NAME])
    rivals.replace(NAME, leases, 0)
    return rivals


def test_nothing_is_in_the_way_where_nobody_looks() -> None:
    """Such as in a replay."""
    assert RivalLeases(OWN, frozenset()).obstacle() == ""


def test_what_is_not_listed_yet_is_in_the_way() -> None:
    rivals = RivalLeases(OWN, frozenset())
    rivals.expect([NAME, "other"])
    rivals.replace("other", [], 0)
    assert "leases called hami-scheduler are not listed yet" in rivals.obstacle()


@pytest.mark.parametrize(("namespace", "is_in_the_way"), [("kube-system", True), ("tenant", False), (OWN[0], False)])
def test_a_lease_that_cannot_be_read_is_in_the_way_where_leases_are(namespace: str, *, is_in_the_way: bool) -> None:
    """Any tenant may write one elsewhere."""
    rivals = make_rivals()
    rivals.replace(NAME, [], 1, {(namespace, NAME)})
    assert ("or one cannot be read" in rivals.obstacle()) is is_in_the_way
    rivals.replace(NAME, [], 2)
    assert rivals.obstacle() == ""


def test_of_a_lease_that_can_be_read_no_more_counts_what_was_known() -> None:
    rivals = make_rivals(lease("kube-system"))
    rivals.replace(NAME, [], 1, {("kube-system", NAME)})
    assert "hami_1 holds the lease kube-system/hami-scheduler" in rivals.obstacle()


def test_the_own_lease_is_none_of_another_scheduler() -> None:
    assert make_rivals(lease("gpu-system")).obstacle() == ""


def test_a_lease_of_another_name_in_the_own_namespace_is_in_the_way() -> None:
    rivals = make_rivals()
    rivals.expect(["other"])
    found = lease("gpu-system")
    rivals.replace("other", [Lease(metadata=ObjectMeta(name="other", namespace="gpu-system"), spec=found.spec)], 0)
    assert "hami_1 holds the lease gpu-system/other" in rivals.obstacle()


def test_a_list_of_one_name_says_nothing_of_leases_of_another() -> None:
    rivals = make_rivals(lease("kube-system"))
    rivals.replace("other", [], 1)
    assert "hami_1 holds the lease" in rivals.obstacle()


def test_a_lease_that_its_holder_gave_up_is_in_nobodys_way() -> None:
    rivals = make_rivals(lease("kube-system"))
    rivals.observe(lease("kube-system", "2", holder=""), 1)
    assert rivals.obstacle() == ""


def test_a_lease_that_has_no_holder_when_asked_for_is_in_nobodys_way() -> None:
    rivals = make_rivals(lease("kube-system"))
    rivals.confirm(("kube-system", NAME), lease("kube-system", holder=""), 15)
    assert rivals.obstacle() == ""


@pytest.mark.parametrize(("duration_s", "doubtful_at"), [(5, 5), (60, 60), (None, 15)])
def test_a_lease_is_doubtful_when_its_own_time_has_run_out(duration_s: int | None, doubtful_at: int) -> None:
    rivals = make_rivals(lease("kube-system", duration_s=duration_s))
    assert (rivals.doubtful(doubtful_at - 1), len(rivals.doubtful(doubtful_at))) == ([], 1)


def test_nobody_is_asked_about_a_lease_elsewhere() -> None:
    assert make_rivals(lease("tenant")).doubtful(100) == []


def test_of_the_leases_that_are_renewed_those_of_named_namespaces_are_told_apart() -> None:
    rivals = make_rivals(lease("kube-system"), lease("tenant"))
    for namespace in ("kube-system", "tenant"):
        rivals.observe(lease(namespace, "2"), 1)
    assert (rivals.named(2), rivals.elsewhere(2)) == ([("kube-system", NAME)], [("tenant", NAME)])


def test_a_lease_without_a_holder_is_in_nobodys_way() -> None:
    assert make_rivals(lease("kube-system", holder="")).obstacle() == ""


def test_a_lease_of_a_named_namespace_is_in_the_way_until_it_is_known_to_be_nobodys() -> None:
    rivals = make_rivals(lease("kube-system"))
    assert "hami_1 holds the lease kube-system/hami-scheduler" in rivals.obstacle()
    assert rivals.doubtful(14) == []
    assert rivals.doubtful(15) == [("kube-system", NAME)]
    rivals.confirm(("kube-system", NAME), lease("kube-system"), 15)
    assert rivals.obstacle() == ""
    assert rivals.doubtful(100) == []


def test_a_renewal_that_only_the_question_showed_begins_the_time_anew() -> None:
    rivals = make_rivals(lease("kube-system"))
    rivals.confirm(("kube-system", NAME), lease("kube-system", "2"), 20)
    assert "hami_1 renews the lease" in rivals.obstacle()
    assert (rivals.doubtful(34), len(rivals.doubtful(35))) == ([], 1)


def test_a_lease_that_is_renewed_again_is_in_the_way_again() -> None:
    rivals = make_rivals(lease("kube-system"))
    rivals.confirm(("kube-system", NAME), lease("kube-system"), 15)
    rivals.observe(lease("kube-system", "2"), 60)
    assert "hami_1 renews the lease" in rivals.obstacle()


def test_the_time_that_a_holder_writes_is_not_read() -> None:
    """Its clock may be years off."""
    rivals = make_rivals(lease("kube-system", "1970-01-01T00:00:00Z"))
    rivals.observe(lease("kube-system", "1969-01-01T00:00:00Z"), 10)
    assert rivals.named(24) == [("kube-system", NAME)]
    assert rivals.named(25) == []


def test_a_lease_that_is_gone_when_asked_for_is_in_nobodys_way() -> None:
    rivals = make_rivals(lease("kube-system"))
    rivals.confirm(("kube-system", NAME), None, 15)
    assert rivals.obstacle() == ""


def test_a_lease_that_a_new_list_does_not_have_is_gone() -> None:
    rivals = make_rivals(lease("kube-system"), lease("tenant"))
    rivals.replace(NAME, [lease("tenant")], 1)
    assert rivals.obstacle() == ""


def test_a_lease_elsewhere_is_never_in_the_way() -> None:
    rivals = make_rivals(lease("tenant"))
    rivals.observe(lease("tenant", "2"), 1)
    assert rivals.obstacle() == ""
    assert (rivals.elsewhere(2), rivals.named(2)) == ([("tenant", NAME)], [])
    assert rivals.elsewhere(16) == []


def test_a_lease_elsewhere_that_nobody_renews_is_not_told() -> None:
    assert make_rivals(lease("tenant")).elsewhere(1) == []


def test_leases_elsewhere_are_remembered_up_to_a_number_and_the_rest_counted() -> None:
    """And they do not keep one from being seen that counts."""
    rivals = make_rivals(*(lease(f"tenant-{number}") for number in range(MOST_ELSEWHERE + 5)), lease("kube-system"))
    assert rivals.ignored == 5
    assert "kube-system/hami-scheduler" in rivals.obstacle()
