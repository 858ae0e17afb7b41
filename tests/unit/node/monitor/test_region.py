"""Regions of every layout, well-formed, hostile and changing."""

import os
import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.node.monitor.regions import FORMS, Content, Process, build, read_word

from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.monitor.layouts import choose_layout
from gpuloom.node.monitor.regionfile import Signals, read_region_file, write_signals

TWO_CARDS = Content(
    uuids=(b"GPU-a", b"GPU-b"),
    limits=(1000, 2000),
    processes=(
        Process(used=((1, 2, 3, 4, 10), (10, 20, 30, 40, 100)), sm=(5, 6)),
        Process(used=((1, 1, 1, 1, 4), (0, 0, 0, 0, 0)), sm=(1, 0), status=2),
        Process(used=((9, 9, 9, 9, 9), (9, 9, 9, 9, 9)), sm=(9, 9), status=0),
    ),
    switch=1,
    recent=-1,
    priority=3,
    last=1_700_000_123,
)
every_form = pytest.mark.parametrize("form", FORMS)


def write(tmp_path, data):
    path = tmp_path / "x.cache"
    path.write_bytes(data)
    return str(path)


def read(tmp_path, data):
    return read_region_file(write(tmp_path, data)).region


@every_form
def test_a_region_is_told_by_its_version_and_size(form, tmp_path):
    assert read(tmp_path, build(form, Content())).layout.name == form


@every_form
def test_memory_is_summed_over_processes_and_free_slots_do_not_count(form, tmp_path):
    one, _ = read(tmp_path, build(form, TWO_CARDS)).devices
    assert (one.context_bytes, one.module_bytes, one.data_bytes, one.offset_bytes, one.total_bytes) == (2, 3, 4, 5, 14)


@every_form
def test_utilization_is_summed_over_processes(form, tmp_path):
    assert [one.utilization_percent for one in read(tmp_path, build(form, TWO_CARDS)).devices] == [6, 6]


@every_form
def test_cards_have_their_uuids_and_limits(form, tmp_path):
    devices = read(tmp_path, build(form, TWO_CARDS)).devices
    assert [(one.index, one.uuid, one.limit_bytes) for one in devices] == [(0, "GPU-a", 1000), (1, "GPU-b", 2000)]


@every_form
def test_the_counters_behind_the_slots_are_read(form, tmp_path):
    counters = read(tmp_path, build(form, TWO_CARDS)).counters
    assert (counters.slot_count, counters.switch, counters.recent, counters.priority) == (3, 1, -1, 3)


@pytest.mark.parametrize(("form", "last"), [("0", 0), ("1.1", 5), ("1.2", 5), ("1.1 shifted", 5)])
def test_the_time_of_the_last_kernel_is_read_where_the_region_has_it(form, last, tmp_path):
    assert read(tmp_path, build(form, Content(last=5))).last_kernel_s == last


@every_form
def test_slots_beyond_the_count_do_not_count(form, tmp_path):
    region = read(tmp_path, build(form, Content(processes=(Process(), Process()), slot_count=1)))
    assert region.devices[0].total_bytes == 10


@every_form
def test_a_device_count_beyond_sixteen_is_sixteen(form, tmp_path):
    uuids = tuple(b"GPU-%d" % place for place in range(16))
    assert len(read(tmp_path, build(form, Content(uuids=uuids, device_count=2**64 - 1))).devices) == 16


@every_form
@pytest.mark.parametrize(("told", "believed"), [(-1, 0), (2**31 - 1, 1024)])
def test_a_slot_count_is_clamped(form, told, believed, tmp_path):
    assert read(tmp_path, build(form, Content(slot_count=told))).counters.slot_count == believed


@pytest.mark.parametrize("uuid", [b"", b"\0GPU-x", b"GPU-\xff", b"GPU-\n"])
def test_a_card_without_a_readable_uuid_is_left_out(uuid, tmp_path):
    region = read(tmp_path, build("1.2", Content(uuids=(uuid, b"GPU-b"), limits=(1, 2))))
    assert [(one.index, one.uuid) for one in region.devices] == [(1, "GPU-b")]


def test_a_uuid_is_cut_at_forty_characters(tmp_path):
    assert read(tmp_path, build("1.2", Content(uuids=(b"G" * 95,)))).uuids == ("G" * 40,)


@pytest.mark.parametrize("form", ["1.2", "1.1 shifted"])
def test_a_slot_that_stays_odd_is_read_and_said_to_be_unsettled(form, tmp_path):
    region = read(tmp_path, build(form, Content(processes=(Process(sequence=3),))))
    assert (region.is_settled, region.devices[0].total_bytes) == (False, 10)


@pytest.mark.parametrize("form", ["1.2", "1.1 shifted"])
def test_a_slot_with_an_even_counter_is_settled(form, tmp_path):
    assert read(tmp_path, build(form, Content())).is_settled


def test_a_free_slot_may_be_odd(tmp_path):
    assert read(tmp_path, build("1.2", Content(processes=(Process(sequence=3, status=0),)))).is_settled


def test_a_figure_that_is_written_meanwhile_is_read_again(tmp_path, monkeypatch):
    calm, torn = (
        build("1.2", Content()),
        build("1.2", Content(processes=(Process(used=((0, 0, 0, 0, 999),), sequence=5),))),
    )
    path = write(tmp_path, torn)
    reads = 0

    def pread(descriptor, length, offset, real=os.pread):
        nonlocal reads
        reads += offset == FORMS["1.2"].slots
        if reads == 3:
            (tmp_path / "x.cache").write_bytes(calm)
        return real(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    region = read_region_file(path).region
    assert (region.is_settled, region.devices[0].total_bytes) == (True, 10)


def test_a_file_that_is_not_initialised_is_refused(tmp_path):
    with pytest.raises(RegionError, match="not initialised"):
        read(tmp_path, bytes(2_008_953))


def test_a_file_of_a_few_bytes_is_refused(tmp_path):
    with pytest.raises(RegionError, match="has 11 bytes"):
        read(tmp_path, bytes(11))


def test_an_unknown_version_is_named(tmp_path):
    data = build("1.2", Content())
    struct.pack_into("<II", data, 4, 2, 0)
    with pytest.raises(RegionError, match=r"version 2\.0"):
        read(tmp_path, data)


@every_form
def test_a_structure_without_the_last_byte_of_its_file_is_read(form, tmp_path):
    assert read(tmp_path, build(form, Content())[:-1]).uuids


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path, build("1.2", Content()))

    def pread(descriptor, length, offset, real=os.pread):
        if offset == FORMS["1.2"].slots:
            os.truncate(path, 1000)
        return real(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(RegionError, match="while it is read"):
        read_region_file(path)


def test_a_link_is_not_followed(tmp_path):
    target = write(tmp_path, build("1.2", Content()))
    link = tmp_path / "link.cache"
    link.symlink_to(target)
    with pytest.raises(RegionError, match="not a regular file"):
        read_region_file(str(link))


def test_a_pipe_does_not_hold_the_reader_up(tmp_path):
    os.mkfifo(tmp_path / "pipe.cache")
    with pytest.raises(RegionError, match="not a regular file"):
        read_region_file(str(tmp_path / "pipe.cache"))


@every_form
def test_signals_are_written_where_the_layout_has_them(form, tmp_path):
    path = tmp_path / "x.cache"
    file = read_region_file(write(tmp_path, build(form, Content())))
    write_signals(file, Signals(recent=-1, switch=0))
    assert (read_word(path, FORMS[form].recent), read_word(path, FORMS[form].switch)) == (-1, 0)


@every_form
def test_nothing_else_is_written(form, tmp_path):
    before = build(form, Content())
    file = read_region_file(write(tmp_path, before))
    write_signals(file, Signals(recent=-1, switch=0))
    after = (tmp_path / "x.cache").read_bytes()
    changed = {place for place in range(len(before)) if before[place] != after[place]}
    places = {*range(FORMS[form].recent, FORMS[form].recent + 4), *range(FORMS[form].switch, FORMS[form].switch + 4)}
    assert changed <= places


def test_a_file_that_was_replaced_is_not_written(tmp_path):
    path = write(tmp_path, build("1.2", Content()))
    file = read_region_file(path)
    (tmp_path / "new").write_bytes(build("1.2", Content()))
    (tmp_path / "new").replace(path)
    with pytest.raises(RegionError, match="replaced"):
        write_signals(file, Signals(recent=-1))


def test_a_file_that_was_shortened_is_not_written(tmp_path):
    path = write(tmp_path, build("1.2", Content()))
    file = read_region_file(path)
    os.truncate(path, 100)
    with pytest.raises(RegionError, match="shortened"):
        write_signals(file, Signals(recent=-1))


@given(size=st.integers(0, 3_000_000), head=st.binary(max_size=16))
def test_any_beginning_has_a_layout_or_is_refused(size, head):
    try:
        layout = choose_layout(size, head)
    except RegionError:
        return
    assert size >= layout.size


@every_form
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patches=st.lists(st.tuples(st.integers(0, 2_009_000), st.binary(min_size=1, max_size=64)), max_size=12))
def test_random_bytes_anywhere_harm_nothing(form, tmp_path, patches):
    data = build(form, TWO_CARDS)
    for offset, patch in patches:
        place = offset % (len(data) - len(patch))
        data[place : place + len(patch)] = patch
    try:
        region = read(tmp_path, data)
    except RegionError:
        return
    assert all(len(device.uuid) <= 40 and device.total_bytes >= 0 for device in region.devices)


@pytest.mark.slow
@every_form
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_region_of_nothing_but_random_bytes_harms_nothing(form, tmp_path, seed):
    data = bytearray(random.Random(seed).randbytes(FORMS[form].size + 1))
    struct.pack_into("<iII", data, 0, 19920718, FORMS[form].major, FORMS[form].minor)
    assert len(read(tmp_path, data).devices) <= 16


@every_form
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(0, 2_008_984))
def test_a_file_cut_anywhere_is_read_or_refused(form, tmp_path, length):
    try:
        region = read(tmp_path, build(form, TWO_CARDS)[:length])
    except RegionError:
        return
    assert length >= region.layout.size
