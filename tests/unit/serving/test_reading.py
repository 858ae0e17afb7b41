"""What the process aside makes of texts, and what becomes of it (trust T-02)."""

import asyncio
import io
import os
import signal
from pathlib import Path

import msgspec
import pytest

from gpuloom.serving.aside import Aside, BadTextError, ReaderBusyError
from gpuloom.serving.frames import HEAD, READ, REFUSED, Verb, pack, unpack_head
from gpuloom.serving.manifests import ManifestError, read_manifest
from gpuloom.serving.reader import serve


def ask(verb: int, text: bytes) -> tuple[int, bytes]:
    answers = io.BytesIO()
    serve(io.BytesIO(pack(verb, text)), answers)
    status, length = unpack_head(answers.getvalue()[: HEAD.size])
    answer = answers.getvalue()[HEAD.size :]
    assert len(answer) == length
    return status, answer


def find_reader() -> int:
    """Return the process that this one started to read texts."""
    children = {
        int(one) for task in Path("/proc/self/task").iterdir() for one in (task / "children").read_text().split()
    }
    (reader,) = (one for one in children if b"gpuloom.serving.reader" in Path(f"/proc/{one}/cmdline").read_bytes())
    return reader


def test_a_manifest_with_references_is_refused() -> None:
    with pytest.raises(ManifestError, match="references"):
        read_manifest("a: &x [1]\nb: *x\n")


def test_a_manifest_that_cannot_be_read_names_the_line() -> None:
    with pytest.raises(ManifestError, match="line 3"):
        read_manifest("a: 1\nb: [\n")


@pytest.mark.parametrize("text", ["", "a: 1\n---\nb: 2\n", "[1]", "when: 2024-99-99", "[" * 5000])
def test_what_is_no_manifest_is_refused_with_words(text: str) -> None:
    with pytest.raises(ManifestError, match=r"\w"):
        read_manifest(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 20_000, "- " * 20_000, "a: " + "[" * 70 + "]" * 70])
def test_a_manifest_that_is_nested_deep_is_refused_before_it_costs_anything(text: str) -> None:
    """trust T-05; libyaml needs the square of the depth: 8 s for 20,000 levels."""
    with pytest.raises(ManifestError, match="nested deeper than 64 levels"):
        read_manifest(text)


@pytest.mark.parametrize("text", ["a: !!bool x", "a: !!timestamp x", 'a: "\\U00110000"', "{null: 1}", "a: 2026-02-31"])
def test_values_that_yaml_promises_and_are_none_are_refused(text: str) -> None:
    assert ask(Verb.MANIFEST, text.encode())[0] == REFUSED


def test_yaml_becomes_json() -> None:
    assert ask(Verb.MANIFEST, b"kind: Pod\nspec: {a: 1}\n") == (READ, b'{"kind":"Pod","spec":{"a":1}}')


def test_what_json_cannot_say_is_refused() -> None:
    status, words = ask(Verb.MANIFEST, b"? [a, b]\n: 1\n")
    assert (status, b"no pod" in words or b"cannot be read" in words) == (REFUSED, True)


def test_of_a_review_is_left_what_is_read_of_it() -> None:
    pod = {
        "metadata": {"name": "p", "managedFields": [1] * 50, "annotations": {}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "long"}], "image": "i"}]},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "1", "object": pod}}
    status, left = ask(Verb.REVIEW, msgspec.json.encode(review))
    assert status == READ
    assert msgspec.json.decode(left)["request"]["object"] == {
        "metadata": {"name": "p", "annotations": {}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "A"}]}]},
    }


def test_no_text_ends_the_process() -> None:
    texts = [b"", b"\xff", b"[" * 3000, b"{" * 3000, b'"', b"9" * 100_000]
    answers = io.BytesIO()
    serve(io.BytesIO(b"".join(pack(verb, text) for verb in Verb for text in texts)), answers)
    answers.seek(0)
    for _ in range(len(texts) * len(Verb)):
        status, length = unpack_head(answers.read(HEAD.size))
        assert status == REFUSED
        assert answers.read(length)


async def test_a_text_that_takes_too_long_is_given_up_and_the_next_is_read() -> None:
    aside = Aside(within_s=0.0)
    with pytest.raises(BadTextError, match="too much time"):
        await aside.read(Verb.MANIFEST, b"a: 1")
    aside = Aside(within_s=20.0)
    assert await aside.read(Verb.MANIFEST, b"a: 1") == b'{"a":1}'
    await aside.close()


async def test_a_text_that_computes_too_long_is_given_up() -> None:
    aside = Aside(computing_s=0.05, within_s=60.0)
    try:
        with pytest.raises(BadTextError, match="too much time"):
            await aside.read(Verb.MANIFEST, b"a: [" + b"1," * 200_000 + b"1]")
        assert await aside.read(Verb.MANIFEST, b"a: 1") == b'{"a":1}'
    finally:
        await aside.close()


@pytest.mark.slow
async def test_waiting_for_a_processor_is_not_held_against_a_text() -> None:
    """A busy machine keeps the process waiting; here it is stopped for longer than it may compute."""
    aside = Aside(computing_s=0.5, within_s=60.0)
    try:
        await aside.read(Verb.MANIFEST, b"{}")
        reader = find_reader()
        os.kill(reader, signal.SIGSTOP)
        reading = asyncio.ensure_future(aside.read(Verb.MANIFEST, b"a: 1"))
        await asyncio.wait({reading}, timeout=1.0)
        os.kill(reader, signal.SIGCONT)
        assert await reading == b'{"a":1}'
    finally:
        await aside.close()


async def test_a_reader_that_was_closed_reads_nothing_more() -> None:
    aside = Aside(within_s=20.0)
    assert await aside.read(Verb.MANIFEST, b"a: 1") == b'{"a":1}'
    await aside.close()
    with pytest.raises(BadTextError):
        await aside.read(Verb.MANIFEST, b"a: 1")


async def test_more_texts_than_may_wait_are_refused_and_counted() -> None:
    aside = Aside(most_waiting=0)
    with pytest.raises(ReaderBusyError):
        await aside.read(Verb.MANIFEST, b"a: 1")
    assert aside.refused == 1


@pytest.mark.slow
async def test_whoever_hangs_up_while_waiting_leaves_nothing_behind() -> None:
    """trust T-02: bodies of callers who are gone must not pile up."""
    aside = Aside(within_s=20.0, most_waiting=3)
    try:
        await aside.read(Verb.MANIFEST, b"{}")
        first = asyncio.ensure_future(aside.read(Verb.MANIFEST, b"a: [" + b"1," * 200_000 + b"1]"))
        await asyncio.sleep(0)
        for _ in range(20):
            gone = [asyncio.ensure_future(aside.read(Verb.MANIFEST, b"{}")) for _ in range(2)]
            await asyncio.sleep(0)
            for one in gone:
                one.cancel()
            await asyncio.wait(gone)
        last = asyncio.ensure_future(aside.read(Verb.MANIFEST, b"{}"))
        done, _ = await asyncio.wait({first, last}, return_when=asyncio.ALL_COMPLETED)
        assert (aside.refused, len(done), last.result()) == (0, 2, b"{}")
    finally:
        await aside.close()


async def test_a_reader_ends_at_once_however_many_wait() -> None:
    aside = Aside(within_s=20.0)
    await aside.read(Verb.MANIFEST, b"{}")
    waiting = [asyncio.ensure_future(aside.read(Verb.MANIFEST, b"a: [" + b"1," * 300_000 + b"1]")) for _ in range(10)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await aside.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(one) for one in results} == {BadTextError}
