"""Made-up facts of a machine on which nothing is wrong; a test changes the one that it is about."""

from dataclasses import replace

from gpuloom.doctor.machine.facts import CdiFacts, CdiSpec, Handler, Library, MachineFacts, RuntimeConfig
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import InjectionSettings, NodeSettings

GPU = Gpu("GPU-1", 0, "NVIDIA L4", 23034, "00000000:01:00.0", minor=0)
NVIDIA = Handler("nvidia", "/usr/bin/nvidia-container-runtime", annotations=())
CONTAINERD = RuntimeConfig("/etc/containerd/config.toml", "nvidia", (NVIDIA,), has_cdi=True, containerd=2)
SETTINGS = NodeSettings(node_name="n1")
CDI_SETTINGS = replace(SETTINGS, injection=InjectionSettings(list_strategies=("cdi-cri",)))
DEVICE_FILES = frozenset({"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"})
SPEC = CdiSpec(
    "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json", "k8s.device-plugin.nvidia.com/gpu", frozenset({"GPU-1"})
)
HEALTHY = MachineFacts(
    machine="x86_64",
    settings=SETTINGS,
    kernel_driver="570.86.10",
    cards=(GPU,),
    device_files=DEVICE_FILES,
    runtimes=(CONTAINERD,),
    registered={"nvidia.com/gpu": ("GPU-7aebc545-cbd3-18a0-afce-76cae449702a-0",)},
    library=Library("/usr/local/vgpu/libvgpu.so", True, "x86_64", ("/usr/local/vgpu/libvgpu.so",)),
    lock_dir_mode=0o1777,
    cdi=CdiFacts((SPEC,)),
)
