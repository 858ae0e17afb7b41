"""--watch: what is new, changed or gone is printed as it is found, in the columns of the first list."""

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from gpuloom.cli.asking.flags import ListFlags, OutputFlags
from gpuloom.cli.asking.listing import check_listing, follow
from gpuloom.cli.asking.tables import PENDING
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.engine.explanation.values import PodName
from gpuloom.web.views.values import PendingView


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
    answers: Iterator[Sequence[PendingView]] = iter(rounds)
    left = iter(range(len(rounds) - 1))

    async def read() -> Sequence[PendingView]:
        return next(answers)

    async def pause() -> None:
        if next(left, None) is None:
            raise EnoughError

    with pytest.raises(EnoughError):
        await follow(
            read, PENDING, ListFlags(sort_by, watch=True, output_watch_events=output_watch_events), form, pause
        )


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
