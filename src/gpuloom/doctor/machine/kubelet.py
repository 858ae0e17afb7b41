"""Judges the sockets between kubelet and plugin, and who else offers the same cards. Pure."""

from collections.abc import Iterator
from pathlib import Path

from gpuloom.doctor.checks import require
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.doctor.machine.facts import MachineFacts, SocketState
from gpuloom.node.replicas import SLICE_MARK, is_instance, physical_id
from gpuloom.node.settings import NodeSettings

_MOST_NAMED = 3


def judge_kubelet(facts: MachineFacts) -> Iterator[Problem]:
    """Say why the kubelet cannot be told of cards, or does not tell who has them."""
    yield from _judge_socket(
        facts.settings.kubelet_socket,
        facts.kubelet,
        "so no plugin can offer cards",
        "start the kubelet; if its folder is elsewhere (as k3s and microk8s have it), give --kubelet-socket and mount "
        "that folder into the plugin's pod",
    )
    yield from _judge_socket(
        facts.settings.pod_resources_socket,
        facts.pod_resources,
        "so nobody can compare what pods were given with what they got",
        "mount the kubelet's folder pod-resources into the plugin's and the monitor's pod",
        Severity.WARNING,
    )


def judge_plugin(facts: MachineFacts) -> Iterator[Problem]:
    """Say why the kubelet would not reach our plugin."""
    yield from _judge_socket(
        facts.settings.plugin_socket,
        facts.plugin,
        f"so the kubelet offers no {facts.settings.resource_name}",
        "start the device plugin on this node, or look at the log of its pod; a node that shall have it needs the "
        "label of the DaemonSet's node selector",
        fault=Fault.INSTALLATION,
    )


def judge_second_plugin(facts: MachineFacts) -> Iterator[Problem]:
    """Say who else offers our resource: the last one that registered wins, and pods get cards without limits."""
    resource = facts.settings.resource_name
    remedy = (
        f"keep one device plugin for {resource}: remove NVIDIA's own or HAMi's (in the GPU Operator: "
        "devicePlugin.enabled=false), then restart gpuloom's"
    )
    if len(facts.plugins) > 1:
        running = "; ".join(f"pid {process.pid} {process.command}" for process in facts.plugins)
        text = f"{len(facts.plugins)} device plugins run on this machine: {running}"
        yield Problem(resource, text, Fault.INSTALLATION, remedy)
        return
    ids = require(facts.registered).get(resource, ())
    foreign = [each for each in ids if not _is_ours(each, facts.settings)]
    if foreign:
        text = f"the kubelet was offered ids that gpuloom does not make: {', '.join(foreign[:_MOST_NAMED])}"
        yield Problem(resource, text, Fault.INSTALLATION, remedy)


def _is_ours(device_id: str, settings: NodeSettings) -> bool:
    """Tell whether an id has the form of those that our plugin makes with these settings (device plugin 4)."""
    is_slice = SLICE_MARK in device_id
    if settings.resource_name in settings.time_slicing.slices or is_slice:
        return is_slice and settings.resource_name in settings.time_slicing.slices
    if is_instance(device_id):
        return settings.mig_strategy != "none"
    return physical_id(device_id) != device_id


def _judge_socket(
    path: Path,
    state: SocketState,
    effect: str,
    remedy: str,
    severity: Severity = Severity.ERROR,
    fault: Fault = Fault.MACHINE,
) -> Iterator[Problem]:
    if state is SocketState.ANSWERS:
        return
    if state is SocketState.HIDDEN:
        text, remedy, severity = "may not be used by this account", "run the doctor as root", Severity.WARNING
    elif state is SocketState.CLOSED:
        text = f"is there, but nobody answers, {effect}"
    else:
        text = f"{state.value}, {effect}"
    yield Problem(str(path), text, fault, remedy, severity)
