"""No input, however broken, raises anything but WireError: neither noise nor a valid text with a piece changed."""

import contextlib
from collections.abc import Callable
from datetime import UTC

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unit.wire.strategies import spoiled

from gpuloom.wire.admission import decode_pod, decode_review
from gpuloom.wire.device_config import decode_device_config
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import decode_bind_args, decode_filter_args, decode_node_list
from gpuloom.wire.handshake import decode_handshake
from gpuloom.wire.lock import decode_lock
from gpuloom.wire.mig import decode_mig_allocations, decode_mig_instance
from gpuloom.wire.node_config import decode_node_config
from gpuloom.wire.pairscores import decode_pair_scores
from gpuloom.wire.quantity import decode_strict_integer, round_quantity
from gpuloom.wire.register import decode_register
from gpuloom.wire.shares import decode_shares, take_next
from gpuloom.wire.words import decode_bool, decode_int32, decode_list, decode_time

MIG_CARD = (
    b'[{"id":"GPU-0","index":1,"count":7,"devmem":40960,"devcore":100,"type":"A100","numa":1,"mode":"mig",'
    b'"migProfiles":[{"name":"1g.5gb","memoryMB":5120,"core":14,"sliceCount":1,"placements":[{"start":0,"size":1}]}],'
    b'"health":true}]'
)
MIG_ALLOCATIONS = (
    b'[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{"start":6,"size":1},'
    b'"migUUID":"MIG-x","gpuInstanceID":1,"computeInstanceID":0}]'
)
DEVICE_CONFIG = b"""
nvidia:
  resourceCountName: a
  deviceMemoryScaling: 1.5
  knownMigGeometries:
  - models: [A30]
    allowedGeometries: [[{name: 1g.6gb, core: 25, memory: 6144, count: 4}]]
"""
POD = (
    b'{"metadata":{"name":"p","namespace":"ns","uid":"u","annotations":{"a":"b"},"labels":null},"spec":{"containers":'
    b'[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"1","nvidia.com/gpumem":4096}},"env":[{"name":"A"}]}]}}'
)

TEXT_DECODERS: dict[str, tuple[Callable[[str], object], bytes]] = {
    "register as json": (decode_register, MIG_CARD),
    "register as csv": (decode_register, b"GPU-a,10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:"),
    "pair scores": (decode_pair_scores, b'[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}}]'),
    "handshake": (lambda text: decode_handshake(text, UTC), b"Requesting_2024-12-24 03:31:30"),
    "lock": (decode_lock, b"2025-10-20T03:07:02Z,ns,pod"),
    "shares": (decode_shares, b";GPU-a,NVIDIA,20000,30:GPU-b,NVIDIA,1,0:;;"),
    "next share": (take_next, b";GPU-a,NVIDIA,20000,30:GPU-b,NVIDIA,1,0:;;"),
    "MIG instance": (decode_mig_instance, b"GPU-a[7-9]"),
    "MIG allocations": (
        decode_mig_allocations,
        MIG_ALLOCATIONS,
    ),
    "strict integer": (decode_strict_integer, b"-1.50e+3"),
    "rounded quantity": (round_quantity, b"16.5Gi"),
    "boolean": (decode_bool, b"true"),
    "integer": (decode_int32, b"-1234"),
    "time": (decode_time, b"2026-07-03T15:35:10.123456789+08:00"),
    "list": (decode_list, b"a, b,,c"),
}
BINARY_DECODERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "review": (
        decode_review,
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":%s}}' % POD,
    ),
    "pod": (decode_pod, POD),
    "filter call": (decode_filter_args, b'{"Pod":%s,"Nodes":{"items":[]},"NodeNames":["n1"]}' % POD),
    "bind call": (decode_bind_args, b'{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n1"}'),
    "node list": (
        lambda body: decode_node_list(msgspec.Raw(body)),
        b'{"metadata":{},"items":[{"metadata":{"name":"n1"},"status":{"allocatable":{"nvidia.com/gpu":"10"}}}]}',
    ),
    "node configuration": (
        lambda body: decode_node_config(body, "n"),
        b'{"nodeconfig":[{"name":"n","devicememoryscaling":1.5,"filterdevices":{"uuid":["a"],"index":[1]}}]}',
    ),
    "device configuration": (
        decode_device_config,
        DEVICE_CONFIG,
    ),
}


def offer(decode: Callable[..., object], sent: str | bytes) -> None:
    """Have something decoded; every other exception than WireError leaves this function."""
    with contextlib.suppress(WireError):
        decode(sent)


@pytest.mark.parametrize("decode", [pair[0] for pair in TEXT_DECODERS.values()], ids=TEXT_DECODERS)
@given(text=st.text(max_size=40))
@example(text="[" * 5000)
@example(text="9" * 5000)
@example(text="\ud800")
@example(text="")
def test_no_text_raises_anything_but_a_wire_error(decode, text):
    offer(decode, text)


@pytest.mark.slow
@pytest.mark.parametrize(("decode", "valid"), TEXT_DECODERS.values(), ids=TEXT_DECODERS)
@given(data=st.data())
def test_no_spoiled_text_raises_anything_but_a_wire_error(decode, valid, data):
    offer(decode, data.draw(spoiled(valid)).decode(errors="surrogateescape"))


@pytest.mark.parametrize("decode", [pair[0] for pair in BINARY_DECODERS.values()], ids=BINARY_DECODERS)
@given(body=st.binary(max_size=40))
@example(body=b"[" * 5000)
@example(body=b"9" * 5000)
@example(body=b"\xff")
@example(body=b"")
def test_no_body_raises_anything_but_a_wire_error(decode, body):
    offer(decode, body)


@pytest.mark.parametrize(("decode", "valid"), BINARY_DECODERS.values(), ids=BINARY_DECODERS)
@given(data=st.data())
def test_no_spoiled_body_raises_anything_but_a_wire_error(decode, valid, data):
    offer(decode, data.draw(spoiled(valid)))


@pytest.mark.parametrize(("decode", "valid"), TEXT_DECODERS.values(), ids=TEXT_DECODERS)
def test_the_text_that_is_spoiled_is_valid(decode, valid):
    decode(valid.decode())


@pytest.mark.parametrize(("decode", "valid"), BINARY_DECODERS.values(), ids=BINARY_DECODERS)
def test_the_body_that_is_spoiled_is_valid(decode, valid):
    decode(valid)


@given(st.integers() | st.floats())
@example(10**5000)
def test_no_number_raises_anything_but_a_wire_error(number):
    offer(decode_strict_integer, number)
    offer(round_quantity, number)
