"""``gpuloom device-plugin``: flags and environment to the settings of one node (device plugin 5.1)."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuloom.cli.logs import LogForm, configure_logs
from gpuloom.cli.outcomes import CommandError
from gpuloom.cli.process import connect, run_until_signal
from gpuloom.kube.errors import NotFoundError
from gpuloom.kube.resources import NODES
from gpuloom.node.errors import NodeError
from gpuloom.node.process import run_device_plugin
from gpuloom.node.settings import NodeSettings
from gpuloom.node.simulated import SimulatedMachine, load_machine
from gpuloom.wire.register import RegisterForm

_DEFAULT = NodeSettings(node_name="")


def run_device_plugin_command(
    *,
    node_name: Annotated[str, Parameter(env_var="NODE_NAME")],
    cards: str,
    kubeconfig: str = "",
    kubelet_socket: Annotated[Path, Parameter(env_var="KUBELET_SOCKET")] = _DEFAULT.kubelet_socket,
    host_root: Path = _DEFAULT.host_root,
    hook_path: Annotated[str, Parameter(env_var="HOOK_PATH")] = _DEFAULT.hook_path,
    lock_dir: Path = _DEFAULT.lock_dir,
    resource_name: str = _DEFAULT.resource_name,
    register_format: RegisterForm = _DEFAULT.register_format,
    device_split_count: Annotated[int, Parameter(env_var="DEVICE_SPLIT_COUNT")] = _DEFAULT.device_split_count,
    device_memory_scaling: Annotated[
        float, Parameter(env_var="DEVICE_MEMORY_SCALING")
    ] = _DEFAULT.device_memory_scaling,
    device_cores_scaling: Annotated[float, Parameter(env_var="DEVICE_CORES_SCALING")] = _DEFAULT.device_core_scaling,
    disable_core_limit: Annotated[bool, Parameter(env_var="DISABLE_CORE_LIMIT")] = _DEFAULT.disable_core_limit,
    lib_cuda_log_level: str = _DEFAULT.lib_cuda_log_level,
    scheduler_name: str = _DEFAULT.scheduler_name,
    any_scheduler: bool = _DEFAULT.any_scheduler,
    log_format: LogForm = "json",
) -> None:
    """Offer this node's cards to its kubelet, in shares.

    The cards of a machine cannot be read yet: they come from a machine description and are simulated.

    Parameters
    ----------
    node_name:
        Name of this node in the cluster.
    cards:
        Machine description: the path of a TOML file, or the name of one that comes with gpuloom
        (two-t4, four-l4, eight-a100-40gb).
    kubeconfig:
        Kubeconfig file; without it KUBECONFIG, the pod's service account or ~/.kube/config.
    kubelet_socket:
        Where the kubelet takes registrations; the plugin's own socket lies beside it.
    host_root:
        Where this process sees the host's file system.
    hook_path:
        Folder of the host that holds vgpu/libvgpu.so.
    lock_dir:
        Folder of the host for the lock files of HAMi-core.
    resource_name:
        Name of the resource that the kubelet counts.
    register_format:
        Form of the node's register annotation.
    device_split_count:
        How many containers may share one card.
    device_memory_scaling:
        Memory offered per card, as a factor of what it has.
    device_cores_scaling:
        Cores offered per card, as a factor of what it has.
    disable_core_limit:
        Whether containers may use all cores whatever they asked for.
    lib_cuda_log_level:
        Log level of HAMi-core in containers.
    scheduler_name:
        Only pods of this scheduler are served.
    any_scheduler:
        Serve pods of any scheduler.
    log_format:
        How log lines look.

    """
    configure_logs(log_format)
    if kubelet_socket.name != _DEFAULT.kubelet_socket.name:
        raise CommandError(f"--kubelet-socket {kubelet_socket}: the file must be called kubelet.sock")
    settings = NodeSettings(
        node_name=node_name,
        plugins_dir=kubelet_socket.parent,
        host_root=host_root,
        hook_path=hook_path,
        lock_dir=lock_dir,
        resource_name=resource_name,
        register_format=register_format,
        device_split_count=device_split_count,
        device_memory_scaling=device_memory_scaling,
        device_core_scaling=device_cores_scaling,
        disable_core_limit=disable_core_limit,
        lib_cuda_log_level=lib_cuda_log_level,
        scheduler_name=scheduler_name,
        any_scheduler=any_scheduler,
    )
    run_until_signal(_serve(settings, cards, kubeconfig), failures=(NodeError,))


async def _serve(settings: NodeSettings, cards: str, kubeconfig: str) -> None:
    machine = SimulatedMachine(settings.node_name, load_machine(cards))
    async with connect(kubeconfig) as client:
        try:
            await client.get(NODES, settings.node_name)
        except NotFoundError as error:
            raise CommandError(f"{error}; give this node's name with --node-name or NODE_NAME") from error
        await run_device_plugin(settings, client, machine)
