"""Pods and settings for tests of the node package."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from gpuloom.node.settings import NodeSettings
from gpuloom.wire.fullpods import FullPod

MakePod = Callable[..., FullPod]


@pytest.fixture
def settings() -> NodeSettings:
    return NodeSettings(node_name="n1")


@pytest.fixture
def make_pod() -> MakePod:
    """A pod bound to node n1 that waits for the devices of `to_allocate`; keywords change single facts."""

    def make(
        to_allocate: str = "",
        *,
        name: str = "p",
        namespace: str = "ns",
        uid: str = "u1",
        containers: Sequence[Mapping[str, Any]] = ({"name": "c"},),
        init_containers: Sequence[Mapping[str, Any]] = (),
        annotations: Mapping[str, str] | None = None,
        node: str = "n1",
        scheduler: str = "hami-scheduler",
        phase: str = "Pending",
        deleted: str | None = None,
        started: str | None = None,
        init_statuses: Sequence[Mapping[str, Any]] = (),
    ) -> FullPod:
        known = {
            "hami.io/vgpu-node": "n1",
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": "1732072495",
            "hami.io/vgpu-devices-to-allocate": to_allocate,
        }
        body = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "annotations": {**known, **(annotations or {})},
                "deletionTimestamp": deleted,
            },
            "spec": {
                "nodeName": node,
                "schedulerName": scheduler,
                "containers": list(containers),
                "initContainers": list(init_containers),
            },
            "status": {"phase": phase, "startTime": started, "initContainerStatuses": list(init_statuses)},
        }
        return msgspec.convert(body, FullPod)

    return make
