import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import allocations, naturals

from gpuloom.model.mig import MigAllocation, MigInstance, MigPlacement, MigRuntime
from gpuloom.wire.errors import WireError
from gpuloom.wire.mig import (
    decode_mig_allocations,
    decode_mig_instance,
    encode_mig_allocations,
    encode_mig_instance,
)

TEXT = '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{"start":6,"size":1}}]'
ALLOCATION = MigAllocation(0, 0, "GPU-a", "1g.5gb", MigPlacement(6, 1))
RUNTIME = '"migUUID":"MIG-x","gpuInstanceID":0,"computeInstanceID":0'


def entry(**changes: str) -> str:
    fields = {
        "containerIndex": "0",
        "deviceIndex": "0",
        "gpuUUID": '"GPU-a"',
        "profile": '"1g.5gb"',
        "placement": '{"start":0,"size":1}',
    } | changes
    return "{" + ",".join(f'"{key}":{value}' for key, value in fields.items()) + "}"


def test_a_uuid_with_suffix_names_geometry_and_position():
    assert decode_mig_instance("GPU-936619fc-f6a1-74a8-0bc6-ecf6b3269313[7-9]") == MigInstance(
        "GPU-936619fc-f6a1-74a8-0bc6-ecf6b3269313", 7, 9
    )


@pytest.mark.parametrize(
    "text",
    [
        *("GPU-a", "GPU-a[", "GPU-a[1", "GPU-a[1]", "GPU-a[1-]", "GPU-a[1-2-3]", "GPU-a[a-b]", "GPU-a]1-2[", "a[1-2]b"),
        *("GPU-a[2147483648-0]", "GPU-a[0-2147483648]"),
    ],
)
def test_any_other_suffix_is_an_error(text):
    with pytest.raises(WireError, match="not a MIG instance"):
        decode_mig_instance(text)


@given(st.builds(MigInstance, st.just("GPU-a"), naturals, naturals))
def test_uuids_with_suffix_round_trip(instance):
    assert decode_mig_instance(encode_mig_instance(instance)) == instance


def test_an_allocation_is_read():
    assert decode_mig_allocations(TEXT) == (ALLOCATION,)


def test_an_allocation_is_written_as_hami_does():
    assert encode_mig_allocations([ALLOCATION]) == TEXT


def test_the_plugins_ids_come_last():
    allocation = MigAllocation(0, 0, "GPU-a", "1g.5gb", MigPlacement(6, 1), MigRuntime("MIG-x", 0, 0))
    assert encode_mig_allocations([allocation]) == TEXT.replace("}}", "}," + RUNTIME + "}")


def test_an_id_of_zero_is_present():
    (allocation,) = decode_mig_allocations(TEXT.replace("}}", "}," + RUNTIME + "}"))
    assert allocation.runtime == MigRuntime("MIG-x", 0, 0)


@pytest.mark.parametrize("text", ["", "[]", "null"])
def test_nothing_is_an_empty_list(text):
    assert decode_mig_allocations(text) == ()


def test_absent_indexes_are_zero():
    text = '[{"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{"start":6,"size":1}}]'
    assert decode_mig_allocations(text) == (ALLOCATION,)


@pytest.mark.parametrize(
    "text",
    [
        entry(containerIndex="-1"),
        entry(deviceIndex="-1"),
        entry(gpuUUID='""'),
        entry(gpuUUID="null"),
        entry(profile='""'),
        entry(placement='{"start":3}'),
        entry(placement='{"start":3,"size":0}'),
        entry(placement="null"),
        entry(migUUID='"MIG-x"'),
        entry(gpuInstanceID="0"),
        entry(computeInstanceID="0"),
        entry(gpuInstanceID="0", computeInstanceID="0"),
        entry(migUUID='"MIG-x"', gpuInstanceID="0"),
        entry(migUUID='"MIG-x"', computeInstanceID="0"),
        entry(migUUID='""', gpuInstanceID="0", computeInstanceID="0"),
        entry() + "," + entry(profile='"2g.10gb"'),
        "1",
        "null",
    ],
)
def test_one_invalid_entry_rejects_the_whole_list(text):
    with pytest.raises(WireError, match="MIG allocation annotation cannot be read"):
        decode_mig_allocations(f"[{entry(deviceIndex='5')},{text}]")


@given(allocations)
def test_allocations_round_trip(made):
    assert decode_mig_allocations(encode_mig_allocations(made)) == made
