"""Every check of a machine, in the order in which an installation needs them."""

from gpuloom.doctor.checks import Check
from gpuloom.doctor.machine.driver import judge_cards, judge_device_files, judge_driver
from gpuloom.doctor.machine.facts import MachineFacts
from gpuloom.doctor.machine.hamicore import judge_known_faults
from gpuloom.doctor.machine.kubelet import judge_kubelet, judge_plugin, judge_second_plugin
from gpuloom.doctor.machine.library import judge_configuration, judge_library, judge_locks, judge_preload
from gpuloom.doctor.machine.runtime import judge_cdi, judge_runtime

MACHINE_CHECKS: tuple[Check[MachineFacts], ...] = (
    Check("driver", "NVIDIA's driver in the kernel, and NVML", "the driver answers", judge_driver),
    Check("cards", "the cards that the driver knows", "every card can be offered", judge_cards),
    Check(
        "device-files",
        "/dev/nvidiactl, /dev/nvidia-uvm and one file for each card",
        "the driver's device files are there",
        judge_device_files,
    ),
    Check(
        "container-runtime",
        "containerd, CRI-O or Docker: NVIDIA's runtime is known, there, and the default",
        "containers are run by what shows them their cards",
        judge_runtime,
    ),
    Check(
        "cdi",
        "with a CDI strategy: nvidia-ctk, its hook, the specifications and their cards, CDI in the runtime",
        "names of CDI devices mean something, or are not used",
        judge_cdi,
    ),
    Check("configuration", "flags and configuration files of the device plugin", "can be used", judge_configuration),
    Check("kubelet", "the kubelet's sockets for plugins and for pod resources", "the kubelet answers", judge_kubelet),
    Check("plugin", "the socket of gpuloom's device plugin", "the device plugin answers", judge_plugin),
    Check(
        "second-plugin",
        "other device plugins that run here, or that the kubelet knows for the resource",
        "no other device plugin offers these cards",
        judge_second_plugin,
    ),
    Check(
        "library",
        "HAMi-core's libvgpu.so: there, a shared library, for this machine",
        "containers can be limited",
        judge_library,
    ),
    Check(
        "library-faults",
        "what is known to go wrong with its version",
        "nothing is known to go wrong with HAMi-core",
        judge_known_faults,
    ),
    Check("preload", "ld.so.preload beside it", "programs in containers load the library", judge_preload),
    Check("locks", "permissions of HAMi-core's folder of locks", "every container can lock", judge_locks),
)
