"""--watch: what is new, changed or gone is printed as it is found, in the columns of the first list."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from gpuloom.cli.asking.flags import ListFlags, OutputFlags
from gpuloom.cli.asking.listing import check_listing, follow
from gpuloom.cli.asking.printing import Table
from gpuloom.cli.asking.tables import CARDS, NODES, PENDING, PODS
from gpuloom.cli.asking.top import USED, tell_used
from gpuloom.cli.asking.utilization import Uses
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.engine.explanation.values import Amount, PodName
from gpuloom.web.views.values import CardView, NodeView, PendingView, PodView, StrandedView, UsedView

_T = TypeVar("_T")
NOTHING = Amount(used=0, total=100)


class EnoughError(Exception):
    """The watch has gone on for as long as the test wants."""


def pod(name: str, headline: str = "fits nowhere", waiting_s: float = 1.0) -> PendingView:
    return PendingView(pod=PodName(namespace="n", name=name), headline=headline, waiting_s=waiting_s)


ROUNDS = (
    [pod("a"), pod("b")],
    [pod("a", waiting_s=3.0), pod("b", waiting_s=3.0)],
    [pod("a", "fits by now", 5.0), pod("c-with-a-name")],
    [pod("a", "fits by now", 7.0), pod("c-with-a-name", waiting_s=2.0)],
)


async def watch(
    rounds: Sequence[Sequence[PendingView]], form: OutputFlags, *, sort_by: str = "", output_watch_events: bool = False
) -> None:
    await watch_list(PENDING, rounds, form, ListFlags(sort_by, watch=True, output_watch_events=output_watch_events))


async def watch_list(table: Table[_T], rounds: Sequence[Sequence[_T]], form: OutputFlags, listing: ListFlags) -> None:
    answers: Iterator[Sequence[_T]] = iter(rounds)
    left = iter(range(len(rounds) - 1))

    async def read() -> Sequence[_T]:
        return next(answers)

    async def pause() -> None:
        if next(left, None) is None:
            raise EnoughError

    with pytest.raises(EnoughError):
        await follow(read, table, listing, form, pause)


async def test_only_what_changes_is_printed_again_and_ages_are_no_change(capsys: pytest.CaptureFixture[str]) -> None:
    await watch(ROUNDS, OutputFlags())
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()] == [
        ["NAMESPACE", "NAME", "WAITS"],
        ["n", "a", "1s"],
        ["n", "b", "1s"],
        ["n", "a", "5s"],
        ["n", "c-with-a-name", "1s"],
        ["n", "b", "3s"],
    ]


async def test_events_say_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    await watch(ROUNDS, OutputFlags(), output_watch_events=True)
    assert [tuple(line.split()[:3:2]) for line in capsys.readouterr().out.splitlines()] == [
        ("EVENT", "NAME"),
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("ADDED", "c-with-a-name"),
        ("DELETED", "b"),
    ]


def used(at: str, busy_percent: int = 10) -> UsedView:
    return UsedView(busy_percent=busy_percent, cards=1, at=at)


def card(at: str, *, busy_percent: int = 10, memory: Amount = NOTHING) -> CardView:
    use = used(at, busy_percent)
    return CardView(node="n", uuid="GPU-a", shares=NOTHING, memory=memory, cores=NOTHING, used=use)


def node(at: str) -> NodeView:
    stranded = StrandedView(cards=1.0, free=2.0, at=at)
    return NodeView(name="n", shares=NOTHING, memory=NOTHING, cores=NOTHING, used=used(at), stranded=stranded)


def runs(at: str) -> PodView:
    return PodView(pod=PodName(namespace="n", name="p"), node="n", standing="bound", used=used(at))


EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "name"])
@pytest.mark.parametrize(("table", "view"), [(CARDS, card), (NODES, node), (PODS, runs)])
async def test_what_was_measured_anew_with_the_same_result_is_not_printed_again(
    table: Table[Any], view: Any, output: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    form = OutputFlags(output=output, no_headers=True)
    await watch_list(table, [[view(EARLIER)]], form, ListFlags(watch=True))
    once = capsys.readouterr().out
    await watch_list(table, [[view(EARLIER)], [view(LATER)]], form, ListFlags(watch=True))
    assert capsys.readouterr().out == once


@pytest.mark.parametrize(
    ("output", "changes"),
    [("table", ["memory"]), ("wide", ["load", "memory"]), ("json", ["load", "memory"]), ("name", [])],
)
async def test_a_change_counts_where_it_is_shown(
    output: Any, changes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {
        "load": card(LATER, busy_percent=20),
        "memory": card(LATER, busy_percent=20, memory=Amount(used=7, total=100)),
    }
    rounds, expected = [[card(EARLIER)], *([one] for one in steps.values())], ["first", *changes]
    await watch_list(CARDS, rounds, OutputFlags(output=output, no_headers=True), ListFlags(watch=True))
    assert capsys.readouterr().out.count("GPU-a") == len(expected)


async def test_columns_stay_where_they_are_when_the_first_item_changes(capsys: pytest.CaptureFixture[str]) -> None:
    await watch([[pod("a")], [pod("a", "fits by now")], []], OutputFlags(), output_watch_events=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["EVENT", "ADDED", "MODIFIED", "DELETED"]
    assert {line.index(" n ") for line in lines[1:]} == {lines[0].index(" NAMESPACE")}


@pytest.mark.parametrize(
    ("node", "uuid"), [("n", "GPU-b"), ("other", "GPU-a")], ids=["two-of-a-node", "one-of-two-nodes"]
)
async def test_cards_of_the_same_index_are_watched_each(
    node: str, uuid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cards = [card(EARLIER), replace(card(EARLIER), node=node, uuid=uuid)]
    used_cards = [tell_used(one, Uses({})) for one in cards]
    await watch_list(USED, [used_cards], OutputFlags(no_headers=True), ListFlags(watch=True))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["n/0", f"{node}/0"]


async def test_a_card_that_two_nodes_claim_is_watched_on_each(capsys: pytest.CaptureFixture[str]) -> None:
    cards = [card(EARLIER), replace(card(EARLIER), node="other")]
    await watch_list(CARDS, [cards], OutputFlags(no_headers=True), ListFlags(watch=True))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["n", "other"]


async def test_programs_get_a_document_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    await watch(ROUNDS, OutputFlags(output="json"), output_watch_events=True)
    decoder = msgspec.json.Decoder(dict)
    documents = decoder.decode_lines(capsys.readouterr().out.replace("\n", "").replace("}{", "}\n{"))
    assert [one["type"] for one in documents] == ["ADDED", "ADDED", "MODIFIED", "ADDED", "DELETED"]
    assert documents[2]["object"]["headline"] == "fits by now"


async def test_the_first_list_is_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    await watch([[pod("n10"), pod("n9")]], OutputFlags(output="name"), sort_by=".pod.name")
    assert capsys.readouterr().out == "pod/n9\npod/n10\n"


@pytest.mark.parametrize(
    ("listing", "name"),
    [(ListFlags(output_watch_events=True), ""), (ListFlags(watch=True), "n"), (ListFlags(sort_by=".name"), "n")],
)
def test_flags_that_mean_nothing_together_are_wrong_usage(listing: ListFlags, name: str) -> None:
    with pytest.raises(CommandError) as raised:
        check_listing(listing, name)
    assert raised.value.code is ExitCode.USAGE
