"""What a plugin that needs no node lock says on its node (binding 9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.wire.errors import WireError
from gpuloom.wire.serves import Serves, decode_serves, encode_serves

WORDS = st.frozensets(st.from_regex(r"[A-Za-z0-9_.-]{1,63}", fullmatch=True), min_size=1)
UIDS = st.from_regex(r"[A-Za-z0-9-]{1,64}", fullmatch=True)


@given(vendors=WORDS, uid=UIDS)
def test_what_is_written_is_read_again(vendors: frozenset[str], uid: str) -> None:
    assert decode_serves(encode_serves(vendors, uid)) == Serves(vendors, uid)


def test_the_form_is_words_and_a_uid() -> None:
    assert encode_serves({"NVIDIA", "DCU"}, "0c9b") == "DCU,NVIDIA;0c9b"


@pytest.mark.parametrize(
    "text", ["", ";", "NVIDIA", "NVIDIA;", ";0c9b", "NVIDIA,;0c9b", "NVIDIA;0c9b;1", "NVIDIA;ü", "NVIDIA;0c9b\n"]
)
def test_what_does_not_name_vendors_and_a_pod_is_refused(text: str) -> None:
    with pytest.raises(WireError, match="is not of the form"):
        decode_serves(text)


@given(text=st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = decode_serves(text)
    except WireError:
        return
    assert decode_serves(encode_serves(found.vendors, found.plugin_uid)) == found
