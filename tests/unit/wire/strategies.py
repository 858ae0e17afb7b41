"""Values as they occur on the wire, and texts that are almost, or not at all, what a decoder wants."""

from hypothesis import strategies as st

from gpuloom.model.card import Card
from gpuloom.model.mig import MigAllocation, MigPlacement, MigProfile, MigRuntime
from gpuloom.model.share import Share
from gpuloom.wire.words import INT32_MAX, INT32_MIN

int32s = st.integers(INT32_MIN, INT32_MAX)
naturals = st.integers(0, INT32_MAX)

words = st.text(st.characters(codec="utf-8", exclude_characters=",:;"), max_size=12)
"""What may stand between separators."""

uuids = st.from_regex(r"GPU-[0-9a-f]{4}(\[[0-9]-[0-9]\])?", fullmatch=True)
card_uuids = st.from_regex(r"GPU-[0-9a-f]{4}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8"), max_size=12)

placements = st.builds(MigPlacement, st.integers(0, 32), st.integers(1, 32))
profiles = st.builds(MigProfile, texts, naturals, naturals, naturals, st.lists(placements, max_size=3).map(tuple))


def cards(names: st.SearchStrategy[str], mig: st.SearchStrategy[tuple[MigProfile, ...]]) -> st.SearchStrategy[Card]:
    return st.builds(
        Card,
        id=card_uuids,
        index=naturals,
        count=naturals,
        memory_mib=naturals,
        cores=naturals,
        model=names,
        numa=int32s,
        mode=names,
        healthy=st.booleans(),
        mig_profiles=mig,
    )


def registers(
    names: st.SearchStrategy[str], mig: st.SearchStrategy[tuple[MigProfile, ...]]
) -> st.SearchStrategy[tuple[Card, ...]]:
    """The cards of one node: no two have one id."""
    return st.lists(cards(names, mig), min_size=1, max_size=4, unique_by=lambda card: card.id).map(tuple)


json_cards = registers(texts, st.lists(profiles, max_size=2).map(tuple))
csv_cards = registers(words, st.just(()))

shares = st.builds(Share, uuid=uuids, vendor=words, memory_mib=int32s, cores=int32s)
containers = st.lists(st.lists(shares, max_size=3).map(tuple), max_size=4).map(tuple)

allocations = st.lists(
    st.builds(
        MigAllocation,
        container_index=st.integers(0, 9),
        device_index=st.integers(0, 9),
        gpu_uuid=uuids,
        profile=texts.filter(bool),
        placement=st.builds(MigPlacement, naturals, st.integers(1, INT32_MAX)),
        runtime=st.none() | st.builds(MigRuntime, texts.filter(bool), naturals, naturals),
    ),
    max_size=4,
    unique_by=lambda allocation: (allocation.container_index, allocation.device_index),
).map(tuple)


@st.composite
def spoiled(draw: st.DrawFn, valid: bytes) -> bytes:
    """Return a valid text with one piece cut out, doubled or replaced."""
    start = draw(st.integers(0, len(valid)))
    end = draw(st.integers(start, min(len(valid), start + 8)))
    instead = draw(st.binary(max_size=4) | st.sampled_from(list(_PIECES)) | st.just(valid[start:end] * 2))
    return valid[:start] + instead + valid[end:]


_PIECES = (
    b"null",
    b"[",
    b"{}",
    b'"',
    b",",
    b":",
    b";",
    b"-1",
    b"1.5",
    b"1e999",
    b"9" * 30,
    b"9" * 5000,
    b"\\ud800",
    b"\xff",
    b"\x00",
    b"true",
    b"[" * 3000,
    "٣".encode(),
)
