"""The last guard of a node: no card is given away beyond what it has (binding 9)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gpuloom.model.card import Card
from gpuloom.node.errors import NoRoomError
from gpuloom.node.room import check_room, is_untouched
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Pod

ALLOCATED = "hami.io/vgpu-devices-allocated"
PHASE = "hami.io/bind-phase"
Make = Callable[..., FullPod]


def card(
    name: str = "GPU-a", *, memory_mib: int = 1000, cores: int = 100, count: int = 3, mode: str = "hami-core"
) -> Card:
    return Card(id=name, memory_mib=memory_mib, cores=cores, count=count, mode=mode, healthy=True)


def nobody_waits(pod: Pod) -> bool:
    del pod
    return False


@pytest.fixture
def give(make_pod: Make) -> Make:
    """A pod with shares of cards: (MiB, per cent) of GPU-a, one container each."""

    def make(name: str, *shares: tuple[int, int], text: str | None = None, **facts: Any) -> FullPod:
        found = "".join(f"GPU-a,NVIDIA,{memory},{cores}:;" for memory, cores in shares) if text is None else text
        facts["annotations"] = {ALLOCATED: found, **facts.get("annotations", {})}
        facts.setdefault("containers", [{"name": f"c{number}"} for number in range(len(shares) or 1)])
        return make_pod(found, name=name, uid=name, **facts)

    return make


@pytest.mark.parametrize(
    ("asked", "beside", "says"),
    [
        ((400, 0), [(300, 0), (301, 0)], "1001 of 1000 MiB"),
        ((1, 51), [(1, 50)], "101 of 100 % of the cores"),
        ((1, 0), [(1, 0), (1, 0), (1, 0)], "4 of 3 shares"),
        ((1001, 0), [], "1001 of 1000 MiB"),
    ],
)
def test_a_grant_beyond_a_card_is_refused_and_says_who_has_it(
    give: Make, asked: tuple[int, int], beside: list[tuple[int, int]], says: str
) -> None:
    others = [give(f"other-{number}", share) for number, share in enumerate(beside)]
    with pytest.raises(NoRoomError, match=says) as refused:
        check_room(give("p", asked), others, [card()], nobody_waits)
    assert all(one.full_name in str(refused.value) for one in others)


def test_whoever_is_refused_is_told_the_names_of_the_own_namespace_alone(give: Make) -> None:
    others = [give("mine", (400, 0)), *(give(f"secret-{number}", (300, 0), namespace="b") for number in range(2))]
    with pytest.raises(NoRoomError) as refused:
        check_room(give("p", (1, 0)), others, [card()], nobody_waits)
    assert "1001 of 1000 MiB, beside ns/mine and 2 pods of other namespaces; two" in refused.value.told
    assert "1001 of 1000 MiB, beside b/secret-0, b/secret-1, ns/mine; two" in str(refused.value)


def test_whoever_is_refused_is_not_told_whose_list_cannot_be_read(give: Make) -> None:
    with pytest.raises(NoRoomError) as refused:
        check_room(give("p", (1, 0)), [give("other", text="GPU-a:;", namespace="b")], [card()], nobody_waits)
    assert "nobody can read how much of it a pod of another namespace holds" in refused.value.told
    assert "pod b/other holds" in str(refused.value)


def test_a_grant_that_fills_a_card_is_accepted(give: Make) -> None:
    others = [give("other", (600, 50)), give("p", (400, 50))]
    check_room(give("p", (400, 50)), others, [card()], nobody_waits)


@pytest.mark.parametrize(
    "facts",
    [{"phase": "Failed"}, {"phase": "Succeeded"}, {"annotations": {"hami.io/vgpu-node": "elsewhere"}}],
)
def test_a_pod_that_holds_nothing_here_takes_no_room(give: Make, facts: dict[str, Any]) -> None:
    check_room(give("p", (600, 0)), [give("other", (600, 0), **facts)], [card()], nobody_waits)


def test_a_pod_that_is_being_deleted_still_holds_what_it_has(give: Make) -> None:
    with pytest.raises(NoRoomError):
        check_room(
            give("p", (600, 0)), [give("other", (600, 0), deleted="2026-01-01T00:00:00Z")], [card()], nobody_waits
        )


def test_of_two_that_were_bound_to_the_same_share_the_first_is_served_and_the_second_refused(give: Make) -> None:
    first, second = give("first", (600, 0)), give("second", (600, 0))
    check_room(first, [first, second], [card()], is_untouched)
    served = give("first", (600, 0), annotations={PHASE: "success"})
    with pytest.raises(NoRoomError, match="beside ns/first"):
        check_room(second, [served, second], [card()], is_untouched)


@pytest.mark.parametrize("fact", [{"started": "2026-01-01T00:00:00Z"}, {"annotations": {PHASE: "success"}}])
def test_a_pod_that_may_have_been_given_something_is_not_untouched(give: Make, fact: dict[str, Any]) -> None:
    assert is_untouched(give("p", (1, 0)))
    assert not is_untouched(give("p", (1, 0), **fact))


def test_a_pod_of_which_one_container_was_served_is_not_untouched(give: Make) -> None:
    left = {"hami.io/vgpu-devices-to-allocate": ";GPU-a,NVIDIA,1,0:;"}
    assert not is_untouched(give("p", (1, 0), (1, 0), annotations=left))


@pytest.mark.parametrize("text", ["GPU-a,NVIDIA,x,0:;", "GPU-a,NVIDIA,-900,0:;", "GPU-a:;", ",:;x"])
def test_a_list_that_cannot_be_read_closes_the_card_that_it_may_name(give: Make, text: str) -> None:
    with pytest.raises(NoRoomError, match="nobody can read how much of it pod ns/other holds"):
        check_room(give("p", (1, 0)), [give("other", text=text)], [card()], nobody_waits)


def test_a_list_that_cannot_be_read_leaves_other_cards_open(give: Make) -> None:
    check_room(give("p", (1, 0)), [give("other", text="GPU-b,NVIDIA,x,0:;")], [card()], nobody_waits)


def test_parts_of_divided_cards_are_left_to_their_driver(give: Make) -> None:
    check_room(give("p", (5000, 0)), [], [card(mode="mig")], nobody_waits)


def test_an_init_container_and_the_regular_ones_hold_the_larger_of_both(give: Make) -> None:
    pod = give("p", (900, 0), (800, 0), init_containers=[{"name": "i"}], containers=[{"name": "c"}])
    check_room(pod, [], [card()], nobody_waits)


ENDED = [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]


@pytest.mark.parametrize(
    ("facts", "fits"),
    [
        ({}, False),
        ({"init_statuses": ENDED}, True),
        ({"init_statuses": ENDED, "deleted": "2026-01-01T00:00:00Z"}, False),
    ],
    ids=["it runs", "it has ended", "the pod is being deleted"],
)
def test_what_an_init_container_held_is_free_when_it_has_ended(
    give: Make, facts: dict[str, Any], *, fits: bool
) -> None:
    """scheduler 4.6."""
    other = give("other", (900, 0), (300, 0), init_containers=[{"name": "i"}], containers=[{"name": "c"}], **facts)
    try:
        check_room(give("p", (600, 0)), [other], [card()], nobody_waits)
    except NoRoomError:
        assert not fits
    else:
        assert fits


def test_a_pod_that_was_served_holds_what_it_was_given(give: Make) -> None:
    served = give("other", (600, 0), annotations={PHASE: "success", "hami.io/vgpu-devices-to-allocate": ";"})
    with pytest.raises(NoRoomError):
        check_room(give("p", (600, 0)), [served], [card()], nobody_waits)


def test_the_other_cards_of_the_node_do_not_matter(give: Make) -> None:
    check_room(give("p", (600, 0)), [give("other", text="GPU-b,NVIDIA,900,0:;")], [card("GPU-b"), card()], nobody_waits)


SHARES = st.tuples(st.integers(1, 600), st.integers(0, 60))


@given(
    shares=st.lists(SHARES, max_size=8), limits=st.tuples(st.integers(1, 1200), st.integers(1, 120), st.integers(1, 5))
)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pods_that_come_one_after_another_never_get_more_than_there_is(
    give: Make, shares: list[tuple[int, int]], limits: tuple[int, int, int]
) -> None:
    memory_mib, cores, count = limits
    cards = [card(memory_mib=memory_mib, cores=cores, count=count)]
    held: list[tuple[int, int]] = []
    for number, share in enumerate(shares):
        fits = (
            sum(memory for memory, _ in held) + share[0] <= memory_mib
            and sum(core for _, core in held) + share[1] <= cores
            and len(held) + 1 <= count
        )
        others = [give(f"o{place}", one) for place, one in enumerate(held)]
        try:
            check_room(give(f"p{number}", share), others, cards, nobody_waits)
        except NoRoomError:
            assert not fits
        else:
            assert fits
            held.append(share)


def test_a_list_without_places_for_init_containers_is_that_of_the_regular_ones(give: Make) -> None:
    """HAMi up to 2.8: taken for an init container's, the first share would count beside no other."""
    beside = [{"name": "c"}, {"name": "d"}]
    other = give("other", (400, 0), (400, 0), containers=beside, init_containers=[{"name": "i"}])
    with pytest.raises(NoRoomError, match="1001 of 1000 MiB"):
        check_room(give("p", (201, 0)), [other], [card()], nobody_waits)
