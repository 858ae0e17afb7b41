"""Judges how containers are run: NVIDIA's runtime or CDI must put the cards in. Pure."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpuloom.doctor.checks import Unseen, UnseenError, require
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.doctor.machine.facts import CdiSpec, DriverFailure, Handler, MachineFacts, RuntimeConfig
from gpuloom.node.settings import InjectionSettings
from gpuloom.node.visibility import CDI_VENDOR

_CONFIGURE = "nvidia-ctk runtime configure --set-as-default, then restart the runtime"


def judge_runtime(facts: MachineFacts) -> Iterator[Problem]:
    """Say why the container runtime would not show a card to a container."""
    if facts.is_simulated:
        raise UnseenError("the cards are simulated, and no runtime has to show them")
    injection = facts.settings.injection
    for runtime in require(facts.runtimes):
        if runtime.error:
            remedy = "correct the file: a runtime that cannot read it uses its own values"
            yield Problem(runtime.path, f"cannot be read: {runtime.error}", Fault.MACHINE, remedy)
        elif not injection.uses_only_cdi or _passes_names(runtime, injection):
            yield from _judge_handlers(runtime, facts.runtime_class)
        elif runtime.containerd is not None and runtime.has_cdi is None:
            yield _doubt_cdi(runtime, injection)


def judge_cdi(facts: MachineFacts) -> Iterator[Problem]:
    """Say why names of CDI devices would mean nothing to the container runtime."""
    injection = facts.settings.injection
    if not injection.uses_cdi:
        return
    cdi = require(facts.cdi)
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
        if runtime.has_cdi is False and not _passes_names(runtime, injection):
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


def _passes_names(runtime: RuntimeConfig, injection: InjectionSettings) -> bool:
    """Tell whether NVIDIA's runtime has to read the names of CDI devices, and gets them: containerd does not read them.

    containerd passes on annotations whose keys match a pattern of the runtime, by the rules of Go's path.Match.
    """
    if runtime.has_cdi is True or "cdi-annotations" not in injection.list_strategies:
        return False
    key = f"{injection.cdi_annotation_prefix}nvidia-device-plugin_x"
    patterns = [each for handler in runtime.handlers if _is_nvidias(handler) for each in handler.annotations or ()]
    return any(_matches(key, pattern) for pattern in patterns)


def _matches(key: str, pattern: str) -> bool:
    """Tell whether a pattern fits; a star stands for no slash."""
    parts, wanted = key.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _doubt_cdi(runtime: RuntimeConfig, injection: InjectionSettings) -> Problem:
    text = "nothing says that CDI is on, and containerd before 2.0 has it off or lacks it: containers may see no card"
    remedy = "set enable_cdi = true (containerd 1.7 or newer)"
    if "cdi-annotations" in injection.list_strategies:
        pattern = f"{injection.cdi_annotation_prefix}*"
        text += f"; no NVIDIA container runtime is passed annotations {pattern} either"
        remedy += f', or container_annotations = ["{pattern}"] for the runtime nvidia'
    if runtime.containerd:
        return Problem(runtime.path, text, Fault.MACHINE, f"{remedy}, and restart containerd", Severity.WARNING)
    text += "; which version of containerd this is cannot be told"
    remedy += ", and restart containerd; with containerd 2.0 or newer nothing has to be done"
    return Problem(runtime.path, text, Fault.MACHINE, remedy, Severity.NOTE)


def _judge_handlers(runtime: RuntimeConfig, runtime_class: str | Unseen) -> Iterator[Problem]:
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
    names = [handler.name for handler in nvidia]
    if names and not {runtime.default, runtime_class} & set(names):
        yield _judge_default(runtime, names, runtime_class)


def _judge_default(runtime: RuntimeConfig, names: list[str], runtime_class: str | Unseen) -> Problem:
    """Say who sees no card where NVIDIA's runtimes are neither the default nor, by their name, the pods' class."""
    text = (
        f"the default runtime is {runtime.default or 'runc'}, so only pods with runtime class {', '.join(names)} "
        "see cards"
    )
    remedy = (
        f"run {_CONFIGURE}; or set runtimeClassName in the device configuration, so that pods with cards get it, "
        "and for the plugin's own pod"
    )
    severity = Severity.WARNING
    if isinstance(runtime_class, Unseen):
        text += f"; whether pods with cards get it cannot be told: {runtime_class.reason}"
        severity = Severity.NOTE
    elif runtime_class and runtime_class not in {handler.name for handler in runtime.handlers}:
        text += f"; pods with cards get runtime class {runtime_class}, and only the cluster tells its handler"
        remedy = f"see that kubectl get runtimeclass {runtime_class} names {' or '.join(names)} as handler"
        severity = Severity.NOTE
    return Problem(runtime.path, text, Fault.INSTALLATION, remedy, severity)


def _is_nvidias(handler: Handler) -> bool:
    return "nvidia" in handler.name or "nvidia-container-runtime" in handler.binary
