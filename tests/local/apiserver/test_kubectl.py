"""The real kubectl against the local server: what people will type into the demo."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from contract.client import Client

from gpuloom.local.apiserver import LocalApiServer
from harness import binaries

pytestmark = pytest.mark.control_plane
DEADLINE_S = 60.0
SIMULATED = "the containers of its pods are simulated; gpuloom explain POD says what they were given"

POD = """
apiVersion: v1
kind: Pod
metadata: {name: trainer, labels: {team: vision}}
spec:
  containers:
  - name: main
    image: busybox:1
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}
"""


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    program: Path
    kubeconfig: Path

    async def run(self, *arguments: str, stdin: str = "") -> Result:
        process = await self.start(*arguments)
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate(stdin.encode())
        return Result(process.returncode or 0, out.decode(), err.decode())

    async def good(self, *arguments: str, stdin: str = "") -> str:
        result = await self.run(*arguments, stdin=stdin)
        assert result.code == 0, result.err
        assert result.err == ""
        return result.out

    async def bad(self, *arguments: str, stdin: str = "") -> str:
        result = await self.run(*arguments, stdin=stdin)
        assert result.code != 0, result.out
        return result.err

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self.program,
            *arguments,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent), "PATH": os.environ["PATH"]},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )


@pytest.fixture
async def kubectl(control_plane_binaries: None, server: LocalApiServer, tmp_path: Path) -> Kubectl:
    kubeconfig = tmp_path / "kubeconfig"
    server.write_kubeconfig(kubeconfig)
    return Kubectl(binaries.find("kubectl"), kubeconfig)


@pytest.fixture
async def trainer(api: Client, kubectl: Kubectl) -> Any:
    """Return a pod that kubectl made and that is bound to a node."""
    await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    await kubectl.good("create", "-f", "-", stdin=POD)
    await api.assign("trainer", "n1", annotations={"hami.io/vgpu-node": "n1"})
    return await api.get("/api/v1/namespaces/default/pods/trainer")


def _words(line: str) -> list[str]:
    return line.split()


async def test_create_makes_the_object(kubectl: Kubectl) -> None:
    assert await kubectl.good("create", "-f", "-", stdin=POD) == "pod/trainer created\n"


@pytest.mark.parametrize("verb", ["create", "apply"])
async def test_a_kind_that_is_not_served_is_named(kubectl: Kubectl, verb: str) -> None:
    deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}"
    err = await kubectl.bad(verb, "-f", "-", stdin=deployment)
    assert 'no matches for kind "Deployment" in version "apps/v1"' in err


async def test_create_refuses_a_taken_name(kubectl: Kubectl, trainer: Any) -> None:
    err = await kubectl.bad("create", "-f", "-", stdin=POD)
    assert 'Error from server (AlreadyExists): error when creating "STDIN": pods "trainer" already exists' in err


async def test_create_shows_why_an_object_is_invalid(kubectl: Kubectl) -> None:
    err = await kubectl.bad("create", "-f", "-", stdin=POD.replace("{nvidia.com/gpu: 1,", "{nvidia.com/gpu: 1500m,"))
    assert 'The Pod "trainer" is invalid:' in err
    assert 'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer' in err


async def test_get_prints_a_table(kubectl: Kubectl, trainer: Any) -> None:
    head, row = (await kubectl.good("get", "pods")).splitlines()
    assert _words(head) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert _words(row)[:4] == ["trainer", "0/1", "Pending", "0"]


async def test_get_wide_shows_the_node(kubectl: Kubectl, trainer: Any) -> None:
    _, row = (await kubectl.good("get", "pods", "-o", "wide")).splitlines()
    assert _words(row)[5:] == ["<none>", "n1", "<none>", "<none>"]


async def test_get_wide_shows_nodes(kubectl: Kubectl, trainer: Any) -> None:
    head, row = (await kubectl.good("get", "no", "-o", "wide")).splitlines()
    assert "INTERNAL-IP" in head
    assert _words(row)[:3] == ["n1", "Unknown", "<none>"]


async def test_get_as_json_shows_the_whole_object(kubectl: Kubectl, trainer: Any) -> None:
    assert json.loads(await kubectl.good("get", "pod", "trainer", "-o", "json")) == trainer


async def test_get_as_yaml_shows_amounts_in_canonical_form(kubectl: Kubectl, trainer: Any) -> None:
    assert "nvidia.com/gpumem: 3k" in await kubectl.good("get", "pod", "trainer", "-o", "yaml")


async def test_get_everywhere_shows_namespaces(kubectl: Kubectl, trainer: Any) -> None:
    head, row = (await kubectl.good("get", "po", "-A")).splitlines()
    assert (_words(head)[0], _words(row)[:2]) == ("NAMESPACE", ["default", "trainer"])


async def test_get_selects_by_label(kubectl: Kubectl, trainer: Any) -> None:
    assert "trainer" in await kubectl.good("get", "pods", "-l", "team in (vision)")
    result = await kubectl.run("get", "pods", "-l", "team!=vision")
    assert result.err == "No resources found in default namespace.\n"


async def test_get_selects_by_field(kubectl: Kubectl, trainer: Any) -> None:
    assert "trainer" in await kubectl.good("get", "pods", "--field-selector", "spec.nodeName=n1")


async def test_get_in_chunks(kubectl: Kubectl, api: Client) -> None:
    for name in "abc":
        await api.create_pod(name)
    assert len((await kubectl.good("get", "pods", "--chunk-size=1", "--no-headers")).splitlines()) == 3


async def test_get_watch_prints_changes(kubectl: Kubectl, api: Client) -> None:
    await api.create_pod("first")
    process = await kubectl.start("get", "pods", "-w", "--no-headers")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            first = (await process.stdout.readline()).decode()
            await api.create_pod("second")
            second = (await process.stdout.readline()).decode()
    finally:
        process.terminate()
        await process.communicate()
    assert (_words(first)[0], _words(second)[0]) == ("first", "second")


async def test_get_several_kinds_at_once(kubectl: Kubectl, trainer: Any) -> None:
    out = await kubectl.good("get", "pods,nodes,events,ns,quota,leases,cm,mutatingwebhookconfigurations", "-A")
    assert "pod/trainer" in out
    assert "node/n1" in out


async def test_describe_shows_a_pod_with_its_events(kubectl: Kubectl, api: Client, trainer: Any) -> None:
    metadata = trainer["metadata"]
    about = {"kind": "Pod", "namespace": "default", "name": "trainer", "uid": metadata["uid"]}
    event = {"metadata": {"name": "e"}, "type": "Normal", "reason": "FilteringSucceed", "message": "find fit node"}
    await api.create(
        "/api/v1/namespaces/default/events", event | {"involvedObject": about, "source": {"component": "x"}}
    )
    out = await kubectl.good("describe", "pod", "trainer")
    assert "nvidia.com/gpumem:  3k" in out
    assert "FilteringSucceed" in out
    assert "hami.io/vgpu-node: n1" in out


async def test_describe_shows_a_node_with_its_pods(kubectl: Kubectl, trainer: Any) -> None:
    out = await kubectl.good("describe", "node", "n1")
    assert "Non-terminated Pods:          (1 in total)" in out
    assert "trainer" in out


async def test_label_sets_and_removes(kubectl: Kubectl, api: Client, trainer: Any) -> None:
    assert await kubectl.good("label", "pod", "trainer", "a=1") == "pod/trainer labeled\n"
    assert await kubectl.good("label", "pod", "trainer", "team-") == "pod/trainer unlabeled\n"
    assert (await api.get(f"{api.pods}/trainer"))["metadata"]["labels"] == {"a": "1"}


async def test_annotate_a_node(kubectl: Kubectl, api: Client, trainer: Any) -> None:
    assert await kubectl.good("annotate", "node", "n1", "a=1") == "node/n1 annotated\n"
    assert (await api.get("/api/v1/nodes/n1"))["metadata"]["annotations"] == {"a": "1"}


async def test_cordon_and_uncordon(kubectl: Kubectl, trainer: Any) -> None:
    assert await kubectl.good("cordon", "n1") == "node/n1 cordoned\n"
    assert "SchedulingDisabled" in await kubectl.good("get", "node", "n1")
    assert await kubectl.good("uncordon", "n1") == "node/n1 uncordoned\n"


async def test_taint(kubectl: Kubectl, api: Client, trainer: Any) -> None:
    await kubectl.good("taint", "node", "n1", "gpu=yes:NoSchedule")
    taints = (await api.get("/api/v1/nodes/n1"))["spec"]["taints"]
    assert taints == [{"effect": "NoSchedule", "key": "gpu", "value": "yes"}]


async def test_one_taint_of_two_is_taken_away(kubectl: Kubectl, api: Client, trainer: Any) -> None:
    await kubectl.good("taint", "node", "n1", "gpu=yes:NoSchedule", "disk=slow:NoSchedule")
    await kubectl.good("taint", "node", "n1", "gpu-")
    taints = (await api.get("/api/v1/nodes/n1"))["spec"]["taints"]
    assert taints == [{"effect": "NoSchedule", "key": "disk", "value": "slow"}]


async def test_delete_without_waiting_begins_termination(kubectl: Kubectl, trainer: Any) -> None:
    out = await kubectl.good("delete", "pod", "trainer", "--wait=false")
    assert out.startswith('pod "trainer" deleted')
    assert "Terminating" in await kubectl.good("get", "pods")


async def test_delete_waits_until_an_unbound_pod_is_gone(kubectl: Kubectl, api: Client) -> None:
    await api.create_pod("p")
    await kubectl.good("delete", "pod", "p")
    assert (await api.call("GET", f"{api.pods}/p")).code == 404


async def test_a_namespace_comes_and_goes(kubectl: Kubectl) -> None:
    lab = "{apiVersion: v1, kind: Namespace, metadata: {name: lab}}"
    assert await kubectl.good("create", "-f", "-", stdin=lab) == "namespace/lab created\n"
    assert 'namespace "lab" deleted' in await kubectl.good("delete", "namespace", "lab")


async def test_commands_that_send_protobuf_are_refused_with_advice(kubectl: Kubectl) -> None:
    err = await kubectl.bad("create", "namespace", "lab")
    assert "this client sends protobuf: use kubectl create -f with a file" in err


async def test_replace_fills_in_defaults_as_create_does(kubectl: Kubectl) -> None:
    await kubectl.good("create", "-f", "-", stdin=POD)
    changed = POD.replace("busybox:1", "busybox:2")
    assert await kubectl.good("replace", "-f", "-", stdin=changed) == "pod/trainer replaced\n"


async def test_apply_creates_and_changes(kubectl: Kubectl, api: Client) -> None:
    assert await kubectl.good("apply", "-f", "-", stdin=POD) == "pod/trainer created\n"
    changed = POD.replace("busybox:1", "busybox:2").replace("vision", "speech")
    assert await kubectl.good("apply", "-f", "-", stdin=changed) == "pod/trainer configured\n"
    pod = await api.get(f"{api.pods}/trainer")
    assert (pod["spec"]["containers"][0]["image"], pod["metadata"]["labels"]) == ("busybox:2", {"team": "speech"})


async def test_apply_on_the_server_is_refused_with_advice(kubectl: Kubectl) -> None:
    err = await kubectl.bad("apply", "--server-side", "-f", "-", stdin=POD)
    assert "the local cluster does not support server-side apply: use kubectl apply without --server-side" in err


async def test_logs_are_refused_with_advice(kubectl: Kubectl, trainer: Any) -> None:
    err = await kubectl.bad("logs", "trainer")
    assert f"the local cluster does not support logs: {SIMULATED}" in err


async def test_exec_is_refused_with_advice(kubectl: Kubectl, trainer: Any) -> None:
    err = await kubectl.bad("exec", "trainer", "--", "nvidia-smi")
    assert f"the local cluster does not support exec: {SIMULATED}" in err


async def test_version_names_the_server(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37.2+gpuloom" in await kubectl.good("version")


async def test_api_resources_lists_what_is_served(kubectl: Kubectl) -> None:
    out = await kubectl.good("api-resources")
    assert "leases" in out
    assert "mutatingwebhookconfigurations" in out
