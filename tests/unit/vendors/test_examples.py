"""The worked example of every family: webhook, request, cards and annotations, through the live flows (vendors 4)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from oracle.reviews import apply_patch

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line

TIME = "2024-11-20T03:28:15Z"
SECONDS = "1732073295"
NVIDIA_CARD = {"count": 10, "devmem": 46068, "devcore": 100, "type": "NVIDIA A40", "mode": "hami-core", "health": True}
METAX = {"model": "MXC500", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True}
LOSSES = {
    "metax-tech.com/gpu.topology.losses": '{"1":100,"2":200,"3":300}',
    "metax-tech.com/gpu.topology.scores": '{"1":10,"2":20,"3":30}',
}
DRS = {
    "devices": [{"index": "0", "minor": "0", "capacity": 6}, {"index": "1", "minor": "1", "capacity": "6"}],
    "profiles": {"1g.8gb": "0", "2g.16gb": "1", "3g.24gb": "2", "6g.48gb": "3"},
}
DIES = [
    {
        "id": f"va-{at}",
        "index": at,
        "count": 1,
        "devmem": 1000,
        "type": "Vastai",
        "health": True,
        "custominfo": {"DeviceStrategy": "die", "AIC": f"aic-{at // 2}"},
    }
    for at in range(4)
]
PREDICATE_NS = "1732073295000000001"


@dataclass(frozen=True)
class Example:
    """A node, what a container asks for, and what is written on its pod; ``limits`` are those after the webhook."""

    node: Mapping[str, Any]
    asked: Mapping[str, str]
    written: Mapping[str, str | None]
    limits: Mapping[str, str] = field(default_factory=dict)
    env: Sequence[str] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    name: str = "c"
    flags: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    running: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, str] = field(default_factory=dict)
    score: str = ""


def annotated(**annotations: Any) -> dict[str, Any]:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in annotations.items()}
    return {"metadata": {"annotations": texts}}


def on_node(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


def capacity(**amounts: str) -> dict[str, Any]:
    return {"status": {"capacity": amounts}}


def both(prefix: str, value: str) -> dict[str, str | None]:
    return {f"hami.io/{prefix}-devices-to-allocate": value, f"hami.io/{prefix}-devices-allocated": value}


EXAMPLES = {
    "NVIDIA": Example(
        annotated(
            **{
                "hami.io/node-nvidia-register": [
                    {"id": "GPU-03f69c50-207a-2038-9b45-23cac89cb67d", **NVIDIA_CARD},
                    {"id": "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae", "index": 1, **NVIDIA_CARD},
                ]
            }
        ),
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "30"},
        both("vgpu", "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae,NVIDIA,20000,30:;"),
    ),
    "MLU": Example(
        capacity(
            **{
                "cambricon.com/mlu.smlu.vcore": "200",
                "cambricon.com/mlu.smlu.vmemory": "180",
                "cambricon.com/vmlu": "20",
            }
        ),
        {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "20", "cambricon.com/mlu.smlu.vcore": "10"},
        both("cambricon-mlu", "node1-cambricon-mlu-1,MLU,5120,10:;")
        | {
            "CAMBRICON_DSMLU_PROFILE": "1_10_20",
            "CAMBRICON_DSMLU_ASSIGNED": "false",
            "CAMBRICON_DSMLU_ASSIGHED": "false",
        },
    ),
    "DCU": Example(
        on_node(
            **{
                "hami.io/node-dcu-register": "DCU-TPXS320016070601,4,65520,100,DCU-K100_AI,0,true:"
                "DCU-TPXS320010040501,4,65520,100,DCU-K100_AI,1,true:"
            }
        ),
        {"hygon.com/dcunum": "1", "hygon.com/dcumem": "2000", "hygon.com/dcucores": "60"},
        both("dcu", "DCU-TPXS320010040501,DCU,2000,60:;"),
    ),
    "Iluvatar chip": Example(
        on_node(
            **{
                "hami.io/node-MR-V100-register": ":".join(
                    f"GPU-a{at},100,32768,100,MR-V100,0,true" for at in (1, 2)
                )
                + ":"
            }
        ),
        {"iluvatar.ai/MR-V100-vgpu": "1", "iluvatar.ai/MR-V100.vCore": "50", "iluvatar.ai/MR-V100.vMem": "64"},
        both("MR-V100", "GPU-a2,MR-V100,16384,50:;"),
        env=("SOL_CONTINER_NAME=MR-V100-poddemo",),
        name="MR-V100-poddemo",
        flags={"enable-iluvatar": True},
    ),
    "Iluvatar": Example(
        capacity(**{"iluvatar.ai/vcuda-core": "200", "iluvatar.ai/vcuda-memory": "256"}),
        {"iluvatar.ai/vgpu": "1", "iluvatar.ai/vcuda-memory": "64", "iluvatar.ai/vcuda-core": "50"},
        both("iluvatar-vgpu", "node1-iluvatar-1,Iluvatar,16384,50:;")
        | {
            "iluvatar.ai/gpu-assigned": "false",
            "iluvatar.ai/predicate-gpu-idx-0": "1",
            "iluvatar.ai/predicate-time": PREDICATE_NS,
        },
        config={
            "iluvatar": {
                "resourceCountName": "iluvatar.ai/vgpu",
                "resourceMemoryName": "iluvatar.ai/vcuda-memory",
                "resourceCoreName": "iluvatar.ai/vcuda-core",
            }
        },
    ),
    "Mthreads": Example(
        capacity(**{"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}),
        {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "32", "mthreads.com/sgpu-core": "8"},
        {
            "hami.io/mthreads-vgpu-devices-allocated": "node1-mthreads-1,Mthreads,16384,8:;",
            "mthreads.com/gpu-index": "1",
            "mthreads.com/predicate-node": "node1",
            "mthreads.com/predicate-time": PREDICATE_NS,
        },
    ),
    "Metax-GPU": Example(
        on_node(**LOSSES) | capacity(**{"metax-tech.com/gpu": "4"}),
        {"metax-tech.com/gpu": "2"},
        both("metax-gpu", "node1-metax-3,Metax-GPU,65536,100:node1-metax-2,Metax-GPU,65536,100:;"),
        score="1800.00",
    ),
    "Metax-GPU, spread": Example(
        on_node(**LOSSES) | capacity(**{"metax-tech.com/gpu": "4"}),
        {"metax-tech.com/gpu": "2"},
        both("metax-gpu", "node1-metax-3,Metax-GPU,65536,100:node1-metax-2,Metax-GPU,65536,100:;"),
        flags={"node-scheduler-policy": "spread"},
        score="1980.00",
    ),
    "Metax-SGPU": Example(
        annotated(
            **{
                "metax-tech.com/node-gpu-devices": [
                    {"uuid": "GPU-m0", "linkZone": 1, **METAX},
                    {"uuid": "GPU-m1", "linkZone": 1, "qosPolicy": "fixed-share", **METAX},
                    {"uuid": "GPU-m2", "linkZone": 2, "numa": 1, **METAX},
                ]
            }
        ),
        {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "60", "metax-tech.com/vmemory": "4"},
        both("metax-sgpu", "GPU-m2,Metax-SGPU,4096,60:;")
        | {
            "metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-m2","compute":60,"vRam":4096}]]',
            "metax-tech.com/predicate-time": PREDICATE_NS,
        },
        pod={"metax-tech.com/sgpu-qos-policy": "best-effort"},
    ),
    "Metax-SGPU, whole cards": Example(
        annotated(
            **{
                "metax-tech.com/node-gpu-devices": [
                    {"uuid": "GPU-m0", "linkZone": 1, **METAX},
                    {"uuid": "GPU-m1", "linkZone": 1, "qosPolicy": "fixed-share", **METAX},
                    {"uuid": "GPU-m2", "linkZone": 2, "numa": 1, **METAX},
                ]
            }
        ),
        {"metax-tech.com/sgpu": "2"},
        both("metax-sgpu", "GPU-m1,Metax-SGPU,65536,100:GPU-m0,Metax-SGPU,65536,100:;"),
    ),
    "Ascend310P": Example(
        annotated(
            **{
                "hami.io/node-register-Ascend310P": [
                    {
                        "id": f"NPU-p{at}",
                        "index": at,
                        "count": 7,
                        "devmem": 21527,
                        "devcore": 8,
                        "type": "Ascend310P",
                        "health": True,
                    }
                    for at in range(2)
                ]
            }
        ),
        {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "2000"},
        both("Ascend310P", "NPU-p1,Ascend310P,3072,0:;")
        | {
            "huawei.com/Ascend310P": '[{"UUID":"NPU-p1","temp":"vir01","memory":3072}]',
            "predicate-time": SECONDS,
        },
        limits={"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "3072"},
        requests={"huawei.com/Ascend310P-memory": "3072"},
        flags={"enable-ascend": True},
    ),
    "Enflame DRS": Example(
        annotated(**{"enflame.com/gcu-drs-capacity": DRS}),
        {"enflame.com/drs-gcu": "3"},
        {
            "hami.io/enflame-vgpu-devices-allocated": "node1-enflame-drs-1,Enflame,24576,50:;",
            "enflame.com/gcu-assigned": "false",
            "enflame.com/gcu-assigned-time": PREDICATE_NS,
            "enflame.com/gcu-assigned-index": "1",
            "enflame.com/gcu-assigned-id": "1",
            "enflame.com/gcu-assigned-minor": "1",
            "enflame.com/gcu-request-size": "3",
            "assigned-containers": '{"c":{"allocated":false,"request":3,"profileID":"2","profileName":"3g.24gb"}}',
        },
        requests={"enflame.com/drs-gcu": "3"},
    ),
    "GCU": Example(
        capacity(**{"enflame.com/gcu": "4"}),
        {"enflame.com/gcu": "2"},
        both("enflame-gcu", "node1-GCU-2,GCU,100,100:node1-GCU-1,GCU,100,100:;"),
        running={"hami.io/enflame-gcu-devices-allocated": "node1-GCU-3,GCU,100,100:;"},
    ),
    "kunlun": Example(
        capacity(**{"kunlunxin.com/xpu": "8"}),
        {"kunlunxin.com/xpu": "1"},
        {"hami.io/kunlun-allocated": "node1-kunlun-0,kunlun,98304,100:;", "BAIDU_COM_DEVICE_IDX": "0"},
    ),
    "XPU": Example(
        annotated(
            **{
                "hami.io/node-register-xpu": [
                    {"id": f"xpu-{at}", "index": at, "count": 4, "devmem": 98304, "devcore": 100, "health": True}
                    for at in range(8)
                ]
            }
        ),
        {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "20000"},
        both("xpu", "xpu-0,XPU,24576,25:;"),
        limits={"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "24576"},
        requests={"kunlunxin.com/vxpu-memory": "24576"},
    ),
    "AWSNeuron": Example(
        {"metadata": {"labels": {"node.kubernetes.io/instance-type": "inf2.24xlarge"}}}
        | capacity(**{"aws.amazon.com/neuron": "4", "aws.amazon.com/neuroncore": "8"}),
        {"aws.amazon.com/neuroncore": "1"},
        {
            "hami.io/aws-neuron-devices-allocated": "node1-AWSNeuron-3,AWSNeuron,0,1:;",
            "AWS_NEURON_IDS": "6",
            "NEURON_ALLOC_TIME": PREDICATE_NS,
            "NEURON_ALLOCATED": "false",
            "NEURON_RESOURCE_TYPE": "aws.amazon.com/neuroncore",
            "aws.amazon.com/predicate-node": "node1",
        },
    ),
    "AWSNeuron, a run of devices": Example(
        {"metadata": {"labels": {"node.kubernetes.io/instance-type": "inf2.24xlarge"}}}
        | capacity(**{"aws.amazon.com/neuron": "4", "aws.amazon.com/neuroncore": "8"}),
        {"aws.amazon.com/neuron": "2"},
        {
            "hami.io/aws-neuron-devices-allocated": "node1-AWSNeuron-0,AWSNeuron,0,3:node1-AWSNeuron-1,AWSNeuron,0,3:;",
            "AWS_NEURON_IDS": "0,1",
            "NEURON_RESOURCE_TYPE": None,
        },
        flags={"gpu-scheduler-policy": "mutex"},
        running={"hami.io/aws-neuron-devices-allocated": "node1-AWSNeuron-2,AWSNeuron,0,3:;"},
    ),
    "AMD": Example(
        annotated(
            **{
                "hami.io/node-amd-register": [
                    {
                        "id": f"amd-{at}",
                        "index": at,
                        "count": 8,
                        "devmem": 196608,
                        "devcore": 304,
                        "type": "AMD Instinct MI300X VF",
                        "health": True,
                    }
                    for at in range(2)
                ]
            }
        )
        | capacity(**{"amd.com/gpu": "16"}),
        {"amd.com/gpu": "1", "amd.com/gpumem": "16384", "amd.com/gpucores": "25"},
        both("amd", "amd-1,AMD Instinct MI300X VF,16384,76:;"),
    ),
    "Vastai": Example(
        annotated(**{"hami.io/node-va-register": DIES}),
        {"vastaitech.com/va": "2"},
        both("Vastai", "va-1,Vastai,0,0:va-0,Vastai,0,0:;"),
        running={"hami.io/Vastai-devices-allocated": "va-3,Vastai,0,0:;"},
    ),
    "Biren": Example(
        annotated(
            **{
                "hami.io/node-biren-register": [
                    {"id": f"br-{at}", "index": at, "count": 1, "devmem": 65536, "type": "Biren", "health": True}
                    for at in range(2)
                ]
            }
        ),
        {"birentech.com/gpu": "1"},
        both("Biren", "br-1,Biren,0,0:;"),
    ),
}  # fmt: skip


async def play(
    example: Example, *facts: Mapping[str, Any], copied: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod after the webhook, and the answer to its Filter; ``facts`` become known between the two.

    copied  annotations of another pod that this one begins with
    """
    player = Player()
    settings = {"type": "SETTINGS", "flags": {"scheduler-name": "hami-scheduler", **example.flags}, "time": TIME}
    if example.config is not None:
        settings["deviceConfig"] = example.config
    metadata = {"name": "node1", **example.node.get("metadata", {})}
    node = {"kind": "Node", "metadata": metadata, "status": example.node.get("status", {})}
    container = {"name": example.name, "resources": {"limits": dict(example.asked)}}
    metadata = {"name": "p", "namespace": "default", "uid": "u", "annotations": dict(copied or {})}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    request = {"uid": "r", "namespace": "default", "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    reviewed = await ask(player, settings, {"type": "REVIEW", "review": review})
    assert reviewed["response"]["response"]["allowed"], reviewed
    admitted = apply_patch(pod, reviewed["response"]["response"].get("patch") or [])
    lines: list[dict[str, Any]] = [{"type": "ADDED", "object": node}, {"type": "RECONCILE"}]
    lines += [{"type": "ADDED", "object": fact} for fact in facts]
    if example.running:
        running = {
            "name": "r",
            "namespace": "default",
            "uid": "r",
            "annotations": {"hami.io/vgpu-node": "node1", **example.running},
        }
        lines.append({"type": "ADDED", "object": {"kind": "Pod", "metadata": running, "spec": {"nodeName": "node1"}}})
    answer = await ask(player, *lines, {"type": "FILTER", "args": {"Pod": admitted, "NodeNames": ["node1"]}})
    return admitted, answer


async def ask(player: Player, *lines: Mapping[str, Any]) -> dict[str, Any]:
    answers = [await player.play(decode_line(json.dumps(line).encode())) for line in lines]
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(answers[-1]))
    return decoded


def same(want: str | None, got: object) -> bool:
    if want is not None and want[:1] in {"[", "{"} and isinstance(got, str):
        return bool(json.loads(want) == json.loads(got))
    return want == got


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_example_is_decided_and_written_as_specified(name: str) -> None:
    example = EXAMPLES[name]
    _, answer = await play(example)
    assert answer["result"]["NodeNames"] == ["node1"], answer
    written = answer["patch"]["metadata"]["annotations"]
    for key, value in example.written.items():
        want = str(int(value) + 1) if value == PREDICATE_NS and example.running else value
        assert same(want, written.get(key)), (key, written)
    if example.score:
        assert answer["events"][0]["message"].endswith(f"(node1:{example.score})")


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_webhook_completes_the_example_as_specified(name: str) -> None:
    example = EXAMPLES[name]
    admitted, _ = await play(example)
    container = admitted["spec"]["containers"][0]
    limits = {key: str(value) for key, value in container["resources"]["limits"].items()}
    assert limits == dict(example.limits or example.asked)
    assert container["resources"].get("requests", {}) == dict(example.requests)
    assert [f"{one['name']}={one['value']}" for one in container.get("env", [])] == list(example.env)
    assert admitted["metadata"].get("annotations", {}).items() >= dict(example.pod).items()
    assert admitted["spec"]["schedulerName"] == "hami-scheduler"


@pytest.mark.parametrize("name", EXAMPLES)
async def test_what_was_written_on_a_pod_is_removed_from_its_copies(name: str) -> None:
    _, answer = await play(EXAMPLES[name])
    written = {key: value for key, value in answer["patch"]["metadata"]["annotations"].items() if value is not None}
    copy, _ = await play(EXAMPLES[name], copied={"mine": "1", **written})
    left = copy["metadata"]["annotations"].keys()
    assert ("mine" in left, left & written.keys()) == (True, set())


async def test_two_cards_that_are_not_linked_are_refused_on_kunlun() -> None:
    """V-05: positions in a sorted list are no places in a wing."""
    held = "".join(f"node1-kunlun-{at},kunlun,98304,100:" for at in (0, 1, 2, 4, 5, 7))
    node = capacity(**{"kunlunxin.com/xpu": "8"})
    example = Example(node, {"kunlunxin.com/xpu": "2"}, {}, running={"hami.io/kunlun-allocated": f"{held};"})
    _, answer = await play(example)
    assert answer["result"]["FailedNodes"] == {"node1": "1/8 NumaNotFit"}
