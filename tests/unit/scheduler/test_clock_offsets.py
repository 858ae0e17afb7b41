"""trust T-08: no lock is taken from a pod that may still be served, whatever the clocks of the machines say.

One true time, and a clock each for the API server, the scheduler that set the lock and bound the pod, and the one that
judges; each is off by up to a minute.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.scheduler.bind.nodelock.owner import LocalKnowledge, is_over
from gpuloom.wire.lock import NodeLock, decode_lock, encode_lock
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import encode_time

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LIST = "hami.io/vgpu-devices-to-allocate"
offsets = st.integers(-30, 30)
"""Of each clock from the true time, so that two of them differ by at most 60 s."""


def at(true_s: float, offset_s: float) -> datetime:
    return START + timedelta(seconds=true_s + offset_s)


def make_owner(*, created: datetime, node: str = "n1", **annotations: str) -> Pod:
    body: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "ns", "creationTimestamp": encode_time(created)},
        "spec": {"nodeName": node},
    }
    body["metadata"]["annotations"] = {f"hami.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return msgspec.convert(body, Pod)


def set_lock(at_: datetime) -> NodeLock:
    """A lock as others read it: whole seconds."""
    return decode_lock(encode_lock(NodeLock(at_, "ns", "p")))


def judge(lock: NodeLock, owner: Pod, now: datetime, knowledge: LocalKnowledge = LocalKnowledge()) -> bool:  # noqa: B008 - frozen
    return is_over(lock, owner, "n1", now, knowledge, {LIST})


@given(api=offsets, binder=offsets, judging=offsets, age_s=st.floats(0, 1e6), led=st.booleans(), left=st.booleans())
def test_an_allocating_owner_is_never_over(
    *, api: int, binder: int, judging: int, age_s: float, led: bool, left: bool
) -> None:
    """However old its lock is, and whatever is left in its list."""
    owner = make_owner(
        created=at(0, api),
        bind_phase="allocating",
        bind_time=str(int(at(1, binder).timestamp())),
        vgpu_devices_to_allocate="GPU-1,NVIDIA,100,0:;" if left else ";",
    )
    assert not judge(set_lock(at(1, binder)), owner, at(1 + age_s, judging), LocalKnowledge(would_know=led))


@given(
    api=offsets,
    binder=offsets,
    judging=offsets,
    waited_s=st.floats(0, 1e5),
    age_s=st.floats(0, 34),
    binds_it=st.booleans(),
)
def test_an_unbound_owner_is_not_over_while_its_bind_can_last(
    *, api: int, binder: int, judging: int, waited_s: float, age_s: float, binds_it: bool
) -> None:
    """A Bind of another process lasts up to 35 s; the pod was made any time before."""
    lock = set_lock(at(waited_s, binder))
    owner = make_owner(created=at(0, api), node="")
    assert not judge(lock, owner, at(waited_s + age_s, judging), LocalKnowledge(binds_it=binds_it))


@given(api=offsets, binder=offsets, judging=offsets, age_s=st.floats(0, 1e6))
def test_a_bound_owner_whose_phase_nobody_has_written_yet_is_not_taken_for_a_namesake(
    *, api: int, binder: int, judging: int, age_s: float
) -> None:
    owner = make_owner(created=at(0, api))
    assert not judge(set_lock(at(1, binder)), owner, at(1 + age_s, judging))


@given(api=offsets, binder=offsets, judging=offsets, age_s=st.floats(0, 1e6))
def test_a_served_owner_is_over_whatever_the_clocks_say(*, api: int, binder: int, judging: int, age_s: float) -> None:
    """Otherwise a lock that its plugin left behind would keep its node until it expires."""
    bound = str(int(at(1, binder).timestamp()))
    owner = make_owner(created=at(0, api), bind_phase="success", bind_time=bound, vgpu_devices_to_allocate=";")
    assert judge(set_lock(at(1, binder)), owner, at(1 + age_s, judging))


@given(api=offsets, binder=offsets, judging=offsets)
def test_a_lock_of_an_unbound_owner_is_over_in_the_end(*, api: int, binder: int, judging: int) -> None:
    """A margin on top of what a Bind can last, and another for clocks that err the other way."""
    owner = make_owner(created=at(0, api), node="")
    assert judge(set_lock(at(1, binder)), owner, at(1 + 35 + 60 + 60 + 2, judging))
