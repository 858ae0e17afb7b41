"""Judges how containers are run: NVIDIA's runtime or CDI must put the cards in. Pure."""

from collections.abc import Iterator

from gpuloom.doctor.checks import Unseen, UnseenError, look
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.doctor.machine.facts import CdiSpec, DriverFailure, Handler, MachineFacts, RuntimeConfig
from gpuloom.node.settings import InjectionSettings
from gpuloom.node.visibility import CDI_VENDOR

_CONFIGURE = "nvidia-ctk runtime configure --set-as-default, then restart the runtime"


def judge_runtime(facts: MachineFacts) -> Iterator[Problem]:
    """Say why the container runtime would not show a card to a container."""
    if facts.is_simulated:
        raise UnseenError("the cards are simulated, and no runtime has to show them")
    if facts.settings.injection.uses_only_cdi:
        return
    for runtime in look(facts.runtimes):
        yield from _judge_runtime(runtime)


def judge_cdi(facts: MachineFacts) -> Iterator[Problem]:
    """Say why names of CDI devices would mean nothing to the container runtime."""
    injection = facts.settings.injection
    if not injection.uses_cdi:
        return
    cdi = look(facts.cdi)
    if not cdi.has_tool:
        remedy = "install the NVIDIA container toolkit in the plugin's image, or use device list strategy envvar"
        yield Problem("nvidia-ctk", "is not installed, and CDI strategies need it", Fault.INSTALLATION, remedy)
    # Where the runtime's configuration cannot be seen, as in a container, the node's programs cannot be either.
    if not cdi.has_hook and not isinstance(facts.runtimes, Unseen):
        remedy = "install the NVIDIA container toolkit on the node, or say where it is: --nvidia-cdi-hook-path"
        yield Problem(injection.cdi_hook_path, "is not on the node, so no container starts", Fault.MACHINE, remedy)
    for spec in cdi.specs:
        if spec.error:
            remedy = "delete the file and restart the device plugin, which writes it again"
            yield Problem(spec.path, f"cannot be read: {spec.error}", Fault.MACHINE, remedy)
    yield from _judge_devices(facts, [spec for spec in cdi.specs if spec.kind == f"{CDI_VENDOR}/gpu"])
    if isinstance(facts.runtimes, Unseen):
        return
    for runtime in facts.runtimes:
        if runtime.has_cdi is False:
            remedy = "switch it on (containerd: enable_cdi = true) and restart the runtime"
            yield Problem(runtime.path, "has CDI switched off", Fault.MACHINE, remedy)


def _judge_devices(facts: MachineFacts, specs: list[CdiSpec]) -> Iterator[Problem]:
    injection = facts.settings.injection
    place = f"{injection.cdi_dir}/{CDI_VENDOR}-gpu.json"
    if not specs:
        remedy = "start the device plugin, which writes it, and look at its log if it does not"
        yield Problem(place, "is not there, so no container with a card starts", Fault.INSTALLATION, remedy)
    elif not isinstance(facts.cards, DriverFailure):
        names = {_name(injection, gpu.uuid, gpu.index) for gpu in facts.cards}
        missing = names - {device for spec in specs for device in spec.devices}
        if missing:
            remedy = "restart the device plugin, which writes the file again"
            text = f"does not know these cards: {', '.join(sorted(missing))}"
            yield Problem(place, text, Fault.INSTALLATION, remedy)


def _name(injection: InjectionSettings, uuid: str, index: int) -> str:
    return uuid if injection.id_strategy == "uuid" else str(index)


def _judge_runtime(runtime: RuntimeConfig) -> Iterator[Problem]:
    if runtime.error:
        remedy = "correct the file: a runtime that cannot read it uses its own values"
        yield Problem(runtime.path, f"cannot be read: {runtime.error}", Fault.MACHINE, remedy)
        return
    nvidia = [handler for handler in runtime.handlers if _is_nvidias(handler)]
    if not nvidia:
        text = "knows no NVIDIA container runtime, so containers see no card"
        remedy = f"install the NVIDIA container toolkit on the node and run {_CONFIGURE}; or use CDI strategies"
        yield Problem(runtime.path, text, Fault.MACHINE, remedy)
    for handler in nvidia:
        if not handler.exists:
            remedy = "install the NVIDIA container toolkit on the node, or correct the path"
            text = f"names {handler.binary} for runtime {handler.name}, which is not there"
            yield Problem(runtime.path, text, Fault.MACHINE, remedy)
    if nvidia and runtime.default not in {handler.name for handler in nvidia}:
        names = ", ".join(handler.name for handler in nvidia)
        yield Problem(
            runtime.path,
            f"the default runtime is {runtime.default or 'runc'}, so only pods with runtime class {names} see cards",
            Fault.INSTALLATION,
            f"run {_CONFIGURE}; or set runtimeClassName in the device configuration, so that pods with cards get it, "
            "and for the plugin's own pod",
            Severity.WARNING,
        )


def _is_nvidias(handler: Handler) -> bool:
    return "nvidia" in handler.name or "nvidia-container-runtime" in handler.binary
