"""JSON that is nested deeper than anything we read (trust T-05)."""

import json
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.wire.admission import decode_pod, decode_review
from gpuloom.wire.deepcut import DEEPEST, cut_deep
from gpuloom.wire.depth import BAD_JSON, decode, decode_by
from gpuloom.wire.extender import decode_filter_args
from gpuloom.wire.register import decode_register

LEVELS = [DEEPEST, DEEPEST + 1, 900, 1100, 9_000, 100_000, 1_000_000]


class Read(msgspec.Struct):
    before: int = 0
    after: int = 0


def nested(levels: int, inner: str = "1") -> str:
    return '{"a":' * levels + inner + "}" * levels


def listed(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("shape", [nested, listed])
def test_a_field_that_nobody_reads_may_be_as_deep_as_it_likes(shape: Any, levels: int) -> None:
    text = f'{{"before":1,"unread":{shape(levels)},"after":2}}'
    assert decode(text.encode(), Read) == Read(1, 2)


@pytest.mark.parametrize("levels", LEVELS)
def test_a_decoder_that_was_made_before_reads_it_too(levels: int) -> None:
    text = f'{{"before":1,"unread":{nested(levels)},"after":2}}'
    assert decode_by(msgspec.json.Decoder(Read), text) == Read(1, 2)


def test_what_stays_json_may_be_as_deep_as_it_likes() -> None:
    found = decode(f'[{nested(9_000)},{{"after":2}}]', list[msgspec.Raw])
    assert decode(found[1], Read) == Read(0, 2)


@pytest.mark.parametrize("stack_bytes", [2**16, 2**18, 2**23])
def test_a_thread_with_a_small_stack_survives_it(stack_bytes: int) -> None:
    found: list[Read] = []
    text = f'{{"unread":{listed(1_000_000)},"after":2}}'
    before = threading.stack_size(stack_bytes)
    try:
        thread = threading.Thread(target=lambda: found.append(decode(text, Read)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found == [Read(0, 2)]


def test_what_is_as_deep_as_may_be_stays_as_it_is() -> None:
    text = nested(DEEPEST).encode()
    assert cut_deep(text) == text


def test_what_is_deeper_becomes_empty_and_keeps_its_kind() -> None:
    assert (
        cut_deep(nested(DEEPEST - 1, '{"a":{"b":1},"c":[[2]],"d":3}'))
        == nested(DEEPEST - 1, '{"a":{},"c":[],"d":3}').encode()
    )


def test_brackets_and_quotes_inside_of_strings_count_for_nothing() -> None:
    value = {"a": r'[[{"\\"' * 100, "b\\": ["]}\\", '"', "\\\\\\"] * 30}
    text = nested(DEEPEST - 3, json.dumps(value)).encode()
    assert cut_deep(text) == text


@pytest.mark.parametrize("shift", range(70))
def test_a_string_may_lie_across_blocks_of_the_pass(shift: int) -> None:
    """Strings, and their backslashes, are carried from one block to the next."""
    value = {"pad": "x" * (2**16 - 60 + shift), "text": '\\"[{' * 8, "deep": [[]]}
    text = json.dumps(value).encode() + b" " * 7
    assert cut_deep(text) == text
    assert json.loads(cut_deep(f"[{text.decode()},{listed(100)}]"))[0] == value


def test_several_deep_values_are_cut_each_for_itself() -> None:
    text = f'[{listed(5_000)},"[",{nested(5_000)},{{"kept":[1,2]}}]'
    assert json.loads(cut_deep(text))[1::2] == ["[", {"kept": [1, 2]}]


@pytest.mark.parametrize(
    "text", [b"", b"[", b'"', b"[" * 100_000, b'{"a":' * 100_000, b"]" * 100_000, b"\xff" + b"[" * 2000]
)
def test_what_is_no_json_is_an_error_and_nothing_worse(text: bytes) -> None:
    with pytest.raises(BAD_JSON):
        decode(text, Read)


DEEP_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\[]{},:é\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\[]{}', max_size=3), inner, max_size=3),
    max_leaves=20,
)


def cut(value: Any, left: int) -> Any:
    """The same in plain Python."""
    if isinstance(value, list):
        return [cut(one, left - 1) for one in value] if left > 0 else []
    if isinstance(value, dict):
        return {key: cut(one, left - 1) for key, one in value.items()} if left > 0 else {}
    return value


@given(DEEP_JSON, st.integers(DEEPEST - 6, DEEPEST + 3), st.booleans())
def test_the_pass_cuts_exactly_what_is_too_deep(value: Any, levels: int, indented: bool) -> None:  # noqa: FBT001
    whole = value
    for _ in range(levels):
        whole = [whole, "["]
    text = json.dumps(whole, indent=1 if indented else None, ensure_ascii=False)
    assert json.loads(cut_deep(text)) == cut(whole, DEEPEST)


DEEP = nested(9_000).encode()
DEEP_POD = b'{"metadata":{"name":"p","managedFields":[{"fieldsV1":%s}]},"spec":{"nodeName":"n1"}}' % DEEP


def test_a_review_of_a_deep_pod_is_read() -> None:
    body = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":%s}}' % DEEP_POD
    assert decode_pod(decode_review(body).pod).spec.node_name == "n1"


def test_a_call_of_the_extender_with_a_deep_pod_is_read() -> None:
    found = decode_filter_args(b'{"Pod":%s,"Nodes":null,"NodeNames":["n1"]}' % DEEP_POD)
    assert found.pod is not None
    assert (found.pod.spec.node_name, found.nodenames and list(found.nodenames.all())) == ("n1", ["n1"])


def test_a_register_annotation_with_a_deep_field_keeps_its_cards() -> None:
    text = b'[{"id":"GPU-a","count":1,"custominfo":{"x":%s}}]' % DEEP
    (card,) = decode_register(text.decode())
    assert card.id == "GPU-a"
