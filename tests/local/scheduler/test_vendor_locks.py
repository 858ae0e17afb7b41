"""Which lock a Bind takes depends on whose cards the pod gets (vendors 1.7, 4.2)."""

import json
from typing import Any

import pytest

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line

LIMITS: dict[str, dict[str, str]] = {
    "MLU": {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "20", "cambricon.com/mlu.smlu.vcore": "10"},
    "Mthreads": {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "32", "mthreads.com/sgpu-core": "8"},
    "NVIDIA": {"nvidia.com/gpu": "1"},
}
NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {
        "name": "n",
        "annotations": {
            "hami.io/node-nvidia-register": '[{"id":"GPU-a","count":10,"devmem":1000,"devcore":100,"health":true}]'
        },
    },
    "status": {
        "capacity": {
            "cambricon.com/mlu.smlu.vcore": "200",
            "cambricon.com/mlu.smlu.vmemory": "180",
            "mthreads.com/sgpu-core": "32",
            "mthreads.com/sgpu-memory": "192",
        },
        "allocatable": {"nvidia.com/gpu": "10"},
    },
}


async def bind(
    limits: dict[str, str], annotations: dict[str, str] | None = None, flags: dict[str, str] | None = None
) -> tuple[str, list[str]]:
    """The error, and the node annotations that a Bind writes, in order."""
    player = Player()
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    pod = {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    node = {
        **NODE,
        "metadata": {"name": "n", "annotations": {**NODE["metadata"]["annotations"], **(annotations or {})}},
    }
    lines = [
        {"type": "SETTINGS", "flags": flags or {}, "time": "2024-11-20T03:28:15Z"},
        {"type": "ADDED", "object": node},
        {"type": "RECONCILE"},
        {"type": "ADDED", "object": pod},
        {"type": "FILTER", "args": {"Pod": pod, "NodeNames": ["n"]}},
        {"type": "BIND", "args": {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "n"}},
    ]
    answers = [await player.play(decode_line(json.dumps(line).encode())) for line in lines]
    bound = answers[-1]
    assert bound is not None
    keys = [key for patch in bound["patches"] for key in patch["patch"]["metadata"]["annotations"]]
    return bound["result"]["Error"], keys


@pytest.mark.parametrize(
    ("vendors", "locks"),
    [
        (["NVIDIA"], ["hami.io/mutex.lock"]),
        (["MLU"], ["cambricon.com/dsmlu.lock"]),
        (["Mthreads"], []),
        (["NVIDIA", "MLU", "Mthreads"], ["cambricon.com/dsmlu.lock", "hami.io/mutex.lock"]),
    ],
)
async def test_a_bind_takes_the_locks_of_the_vendors_it_gets_cards_of(vendors: list[str], locks: list[str]) -> None:
    """scheduler 7.1 step 3."""
    limits = {name: amount for vendor in vendors for name, amount in LIMITS[vendor].items()}
    assert await bind(limits) == ("", locks)


async def test_a_bind_that_cannot_have_all_its_locks_gives_back_those_it_has() -> None:
    """scheduler 7.1 step 3, failure."""
    taken = {"hami.io/mutex.lock": "2024-11-20T03:28:14Z,default,other"}
    error, locks = await bind(LIMITS["MLU"] | LIMITS["NVIDIA"], taken, {"lock-wait": "group-only"})
    assert "node lock contention" in error
    assert locks == ["cambricon.com/dsmlu.lock"] * 2


async def test_a_lock_without_a_holder_is_in_the_way_for_two_minutes() -> None:
    error, _ = await bind(LIMITS["MLU"], {"cambricon.com/dsmlu.lock": "2024-11-20T03:27:00Z"})
    assert "node lock contention" in error


async def test_a_lock_without_a_holder_is_taken_over_after_two_minutes() -> None:
    error, locks = await bind(LIMITS["MLU"], {"cambricon.com/dsmlu.lock": "2024-11-20T03:26:00Z"})
    assert (error, locks) == ("", ["cambricon.com/dsmlu.lock"])
