"""Answers from a file of nodes and pods, as a snapshot has them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import card

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.wire.register import encode_register

SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10"}
MISTYPED = {"nvidia.com/gpumemory": "3000"}
CLOSED: Mapping[str, Any] = {"spec": {"unschedulable": True}}
NOT_READY: Mapping[str, Any] = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def node(name: str, *, shares: int = 10, **parts: Any) -> dict[str, Any]:
    """A node with one card, which so many pods can share."""
    register = encode_register([card(f"GPU-{name}", count=shares)])
    offered = {"nvidia.com/gpu": str(shares)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": register}},
        "spec": parts.get("spec", {}),
        "status": {"allocatable": offered, "capacity": offered, **parts.get("status", {})},
    }


def pod(name: str, *limits: Mapping[str, str]) -> dict[str, Any]:
    """A pod with a container for each of these limits."""
    containers = [{"name": f"c{at}", "resources": {"limits": one}} for at, one in enumerate(limits)]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def deployment(replicas: int, *limits: Mapping[str, str]) -> dict[str, Any]:
    template = {"spec": pod("web", *limits)["spec"]}
    return {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas, "template": template}}


class Asked:
    """Commands that are asked about a file."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = directory
        self._capsys = capsys

    def ask(self, *tokens: str, of: Sequence[Mapping[str, Any]]) -> tuple[ExitCode, str]:
        """Return how a command ended and what it printed, asked of these objects."""
        settings = {"type": "SETTINGS", "flags": {"scheduler-name": "s"}, "time": "2026-05-04T08:00:00Z"}
        lines = [settings, *({"type": "ADDED", "object": one} for one in of), {"type": "RECONCILE"}]
        file = self._directory / "snapshot.jsonl"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        code = run([*tokens, "--from", str(file)])
        return code, self._capsys.readouterr().out

    def fits(self, *manifests: Mapping[str, Any], of: Sequence[Mapping[str, Any]]) -> tuple[ExitCode, list[str]]:
        """Return how ``fits`` ended, and its lines, asked of these objects."""
        file = self._directory / "manifest.json"
        file.write_text(json.dumps({"kind": "List", "items": manifests}), encoding="utf-8")
        code, out = self.ask("fits", "-f", str(file), of=of)
        return code, out.splitlines()


@pytest.fixture
def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(tmp_path, capsys)


@pytest.mark.parametrize(("replicas", "code"), [(100, ExitCode.YES), (500, ExitCode.UNKNOWN)])
def test_whether_more_pods_fit_than_were_counted_is_not_known(asked: Asked, replicas: int, code: ExitCode) -> None:
    """Pods of two containers are placed one by one, a hundred at most."""
    ended, told = asked.fits(deployment(replicas, SHARE, SHARE), of=[node("n1", shares=400)])
    assert told[0] == f"Deployment/web: room for at least 100 such pods of {replicas} asked for: n1 100"
    assert ended == code


def test_a_no_counts_more_than_what_is_not_known(asked: Asked) -> None:
    giant = pod("giant", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "90000"})
    ended, _ = asked.fits(deployment(500, SHARE, SHARE), giant, of=[node("n1", shares=400)])
    assert ended == ExitCode.NO


def test_each_of_several_in_a_file_is_looked_at_alone(asked: Asked) -> None:
    one, other = (pod(name, {"nvidia.com/gpu": "1"}) for name in ("a", "b"))
    _, told = asked.fits(one, other, of=[node("n1", shares=1)])
    assert [line for line in told if ": room" in line] == [
        "Pod/a: room for 1 such pod, looked at alone: n1 1",
        "Pod/b: room for 1 such pod, looked at alone: n1 1",
    ]


def test_a_file_does_not_tell_how_many_pods_without_cards_fit(asked: Asked) -> None:
    ended, told = asked.fits(pod("web", {"cpu": "1"}), of=[node("n1")])
    why = "a snapshot or recording tells of cards alone: ask the running scheduler"
    assert told == [
        "Pod/web: room is not known",
        f"pod default/web asks for no card: kube-scheduler places it alone; {why}.",
    ]
    assert ended == ExitCode.UNKNOWN


@pytest.mark.parametrize("parts", [CLOSED, NOT_READY])
def test_nodes_that_take_no_pods_have_no_room_for_pods_without_cards(asked: Asked, parts: Mapping[str, Any]) -> None:
    ended, told = asked.fits(pod("web", {"cpu": "1"}), of=[node("n1", **parts)])
    assert (ended, told[0]) == (ExitCode.NO, "Pod/web: no room")


@pytest.mark.parametrize("parts", [CLOSED, NOT_READY])
def test_cards_of_nodes_that_take_no_pods_are_not_idle(asked: Asked, parts: Mapping[str, Any]) -> None:
    _, told = asked.ask("cards", "--state", "idle", "-o", "name", of=[node("n1"), node("n2", **parts)])
    assert told == "card/GPU-n1\n"


def test_a_pod_that_asks_for_a_mistyped_resource_alone_is_explained(asked: Asked) -> None:
    _, told = asked.ask("explain", "typo", of=[node("n1"), pod("typo", MISTYPED)])
    assert told.endswith("so the pod will stay pending; did you mean nvidia.com/gpumem?\n")


def test_one_card_of_one_node_is_counted_in_the_singular(asked: Asked) -> None:
    _, told = asked.ask("top", of=[node("n1")])
    assert told.startswith("1 card on 1 of 1 node: 1 idle\n")


def test_that_kube_scheduler_will_try_a_pod_again_is_not_said_where_it_is_not_known(asked: Asked) -> None:
    """Anything but cards may keep the pod away, its node selector here."""
    waits = pod("waits", SHARE)
    waits["spec"]["nodeSelector"] = {"zone": "nowhere"}
    _, told = asked.ask("explain", "waits", of=[node("n1"), waits])
    assert told.startswith("pod default/waits waits; going by cards alone it fits on the only node, n1.\n")
    _, listed = asked.ask("pending", of=[node("n1"), waits])
    assert listed.endswith("   fits on n1, going by cards alone\n")


def test_quotas_say_their_unit_which_is_not_always_that_of_the_resource(asked: Asked) -> None:
    """A unit of this resource is 256 MiB."""
    hard = {"limits.cambricon.com/mlu.smlu.vmemory": "8"}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
    _, told = asked.ask("quota", of=[node("n1"), quota])
    assert told.splitlines()[1].split() == ["default", "cambricon.com/mlu.smlu.vmemory", "0", "2,048", "2,048", "MiB"]
