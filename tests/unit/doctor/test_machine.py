"""What the doctor says of a machine, one made-up fact at a time."""

from dataclasses import replace
from functools import partial

import pytest
from unit.doctor.judging import judge_changed, told
from unit.doctor.machinefacts import (
    CDI_SETTINGS,
    CONTAINERD,
    DEVICE_FILES,
    GPU,
    HEALTHY,
    NVIDIA,
    SETTINGS,
    SPEC,
)

from gpuloom.doctor.checks import Unseen, UnseenError, run_checks
from gpuloom.doctor.findings import Fault, Severity
from gpuloom.doctor.machine.catalogue import MACHINE_CHECKS
from gpuloom.doctor.machine.driver import judge_cards, judge_device_files, judge_driver
from gpuloom.doctor.machine.facts import (
    CdiFacts,
    CdiSpec,
    DriverFailure,
    Handler,
    Library,
    PluginProcess,
    RuntimeConfig,
    SocketState,
)
from gpuloom.doctor.machine.kubelet import judge_kubelet, judge_plugin, judge_second_plugin
from gpuloom.doctor.machine.library import judge_configuration, judge_library, judge_locks, judge_preload
from gpuloom.doctor.machine.runtime import judge_cdi, judge_runtime
from gpuloom.node.settings import InjectionSettings, NodeSettings, TimeSlicing

judge = partial(judge_changed, HEALTHY)
ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
MISSING = DriverFailure("no NVIDIA driver answers (Driver Not Loaded)", is_missing=True)
FOREIGN_ID = "GPU-7aebc545-cbd3-18a0-afce-76cae449702a"
RUNC = replace(CONTAINERD, default="runc", handlers=(Handler("runc"), Handler("kata"), NVIDIA))
OLD = replace(CONTAINERD, has_cdi=None, containerd=1)
ANNOTATIONS = replace(SETTINGS, injection=InjectionSettings(list_strategies=("cdi-annotations",)))


def passing(runtime: RuntimeConfig, *patterns: str) -> RuntimeConfig:
    """Let NVIDIA's runtime get the annotations that match."""
    return replace(runtime, handlers=(replace(NVIDIA, annotations=patterns),))


def test_a_healthy_machine_gives_one_good_finding_for_each_check() -> None:
    # No version of HAMi-core is known to be without any fault, so that check is left out where the version is not told.
    findings = run_checks(MACHINE_CHECKS, HEALTHY, "node n1")
    assert [(one.check, one.severity, one.object) for one in findings] == [
        (check.name, Severity.SKIPPED if check.name == "library-faults" else Severity.OK, "node n1")
        for check in MACHINE_CHECKS
    ]


def test_without_a_driver_in_the_kernel_the_remedy_is_to_install_it() -> None:
    (problem,) = judge(judge_driver, cards=MISSING, kernel_driver="")
    assert "install the NVIDIA driver" in problem.remedy


def test_a_loaded_driver_without_its_library_is_the_runtimes_matter() -> None:
    (problem,) = judge(judge_driver, cards=MISSING)
    assert "runtime class" in problem.remedy


def test_a_driver_that_was_updated_in_use_wants_a_restart() -> None:
    failure = DriverFailure("Driver/library version mismatch", is_missing=True)
    (problem,) = judge(judge_driver, cards=failure)
    assert problem.remedy.startswith("restart the node")


def test_a_driver_that_hangs_is_told_with_its_own_words() -> None:
    (problem,) = judge(judge_driver, cards=DriverFailure("timeout of 10 s", is_missing=False))
    assert "timeout of 10 s" in problem.text


def test_cards_are_skipped_where_the_driver_tells_none() -> None:
    with pytest.raises(UnseenError, match="see check driver"):
        judge(judge_cards, cards=MISSING)


def test_a_driver_without_cards_is_an_error() -> None:
    assert told(judge(judge_cards, cards=())) == [(ERROR, "NVIDIA driver")]


def test_a_lost_card_is_an_error_of_that_card() -> None:
    assert told(judge(judge_cards, cards=(replace(GPU, healthy=False),))) == [(ERROR, "card GPU-1")]


def test_a_card_that_cannot_tell_its_memory_wants_a_setting() -> None:
    (problem,) = judge(judge_cards, cards=(replace(GPU, memory_mib=None),))
    assert "preConfiguredDeviceMemory" in problem.remedy


def test_a_card_with_preconfigured_memory_is_fine() -> None:
    settings = replace(SETTINGS, preconfigured_memory_mib=1000)
    assert judge(judge_cards, cards=(replace(GPU, memory_mib=None),), settings=settings) == []


def test_mig_in_mode_hami_core_is_a_warning() -> None:
    assert told(judge(judge_cards, cards=(replace(GPU, can_be_divided=True),))) == [(WARNING, "card GPU-1")]


@pytest.mark.parametrize("path", ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"])
def test_a_missing_device_file_is_named(path: str) -> None:
    assert told(judge(judge_device_files, device_files=DEVICE_FILES - {path})) == [(ERROR, path)]


def test_simulated_cards_have_no_device_files() -> None:
    with pytest.raises(UnseenError, match="simulated"):
        judge(judge_device_files, is_simulated=True)


def test_a_runtime_that_knows_nothing_of_nvidia_is_an_error() -> None:
    runtime = replace(CONTAINERD, default="runc", handlers=(Handler("runc"),))
    assert told(judge(judge_runtime, runtimes=(runtime,))) == [(ERROR, runtime.path)]


def test_an_nvidia_runtime_that_is_not_the_default_is_a_warning_about_runtime_classes() -> None:
    (problem,) = judge(judge_runtime, runtimes=(replace(CONTAINERD, default=""),))
    assert (problem.severity, "runtimeClassName" in problem.remedy) == (WARNING, True)


def test_pods_that_get_nvidias_runtime_by_their_class_need_no_default() -> None:
    assert judge(judge_runtime, runtimes=(RUNC,), runtime_class="nvidia") == []


def test_where_nobody_can_tell_the_pods_class_another_default_is_a_note() -> None:
    (problem,) = judge(judge_runtime, runtimes=(RUNC,), runtime_class=Unseen("it is closed"))
    assert (problem.severity, "it is closed" in problem.text) == (NOTE, True)


def test_a_class_whose_handler_only_the_cluster_tells_is_a_note() -> None:
    (problem,) = judge(judge_runtime, runtimes=(RUNC,), runtime_class="gpu")
    assert (problem.severity, "runtimeclass gpu" in problem.remedy) == (NOTE, True)


@pytest.mark.parametrize("runtime_class", ["", "kata"])
def test_a_class_that_is_not_nvidias_leaves_the_warning(runtime_class: str) -> None:
    assert told(judge(judge_runtime, runtimes=(RUNC,), runtime_class=runtime_class)) == [(WARNING, RUNC.path)]


def test_a_runtime_whose_program_is_missing_is_an_error() -> None:
    (problem,) = judge(judge_runtime, runtimes=(replace(CONTAINERD, handlers=(replace(NVIDIA, exists=False),)),))
    assert NVIDIA.binary in problem.text


def test_a_broken_runtime_configuration_is_told() -> None:
    (problem,) = judge(judge_runtime, runtimes=(replace(CONTAINERD, error="line 3"),))
    assert "line 3" in problem.text


def test_a_runtime_that_cannot_be_seen_is_skipped_with_the_reason() -> None:
    with pytest.raises(UnseenError, match="mount it"):
        judge(judge_runtime, runtimes=Unseen("mount it"))


def test_with_cdi_alone_nvidias_runtime_is_not_needed() -> None:
    assert judge(judge_runtime, runtimes=(replace(CONTAINERD, handlers=()),), settings=CDI_SETTINGS) == []


@pytest.mark.parametrize("settings", [CDI_SETTINGS, ANNOTATIONS])
def test_containerd_1_that_nobody_told_to_use_cdi_is_a_warning(settings: NodeSettings) -> None:
    assert told(judge(judge_runtime, runtimes=(OLD,), settings=settings)) == [(WARNING, OLD.path)]


def test_where_nobody_can_tell_containerds_version_cdi_is_a_note_that_says_so() -> None:
    (problem,) = judge(judge_runtime, runtimes=(replace(OLD, containerd=0),), settings=CDI_SETTINGS)
    assert (problem.severity, "cannot be told" in problem.text) == (NOTE, True)


@pytest.mark.parametrize(
    "pattern", ["cdi.k8s.io/*", "*.k8s.io/*", "cdi.k8s.io/nvidia-device-plugin_*", "cdi.k8s.io/[m-o]?*"]
)
def test_nvidias_runtime_that_is_passed_the_names_needs_no_cdi_in_containerd(pattern: str) -> None:
    assert judge(judge_runtime, runtimes=(passing(OLD, pattern),), settings=ANNOTATIONS) == []


@pytest.mark.parametrize("pattern", ["*", "cdi.k8s.io", "cdi.k8s.io/*/*", "CDI.k8s.io/*", "nvidia.com/*"])
def test_other_annotations_do_not_name_cards(pattern: str) -> None:
    (problem,) = judge(judge_runtime, runtimes=(passing(OLD, pattern),), settings=ANNOTATIONS)
    assert "container_annotations" in problem.remedy


def test_annotations_do_not_help_a_strategy_without_them() -> None:
    (problem,) = judge(judge_runtime, runtimes=(passing(OLD, "cdi.k8s.io/*"),), settings=CDI_SETTINGS)
    assert "container_annotations" not in problem.remedy


def test_nvidias_runtime_that_is_passed_the_names_must_run_the_pods() -> None:
    runtime = replace(passing(OLD, "cdi.k8s.io/*"), default="runc")
    (problem,) = judge(judge_runtime, runtimes=(runtime,), settings=ANNOTATIONS)
    assert "the default runtime is runc" in problem.text


def test_other_runtimes_than_containerd_have_cdi() -> None:
    crio = RuntimeConfig("/etc/crio/crio.conf", "crun")
    assert judge(judge_runtime, runtimes=(crio,), settings=CDI_SETTINGS) == []


def test_cdi_is_not_judged_where_no_strategy_uses_it() -> None:
    assert judge(judge_cdi, cdi=CdiFacts(has_tool=False, has_hook=False)) == []


@pytest.mark.parametrize(
    ("cdi", "told_of"),
    [
        (CdiFacts((SPEC,), has_tool=False), "nvidia-ctk"),
        (CdiFacts((SPEC,), has_hook=False), "/usr/bin/nvidia-cdi-hook"),
        (CdiFacts(()), SPEC.path),
        (CdiFacts((replace(SPEC, devices=frozenset()),)), SPEC.path),
        (CdiFacts((SPEC, CdiSpec("/var/run/cdi/x.json", error="bad"))), "/var/run/cdi/x.json"),
    ],
)
def test_what_cdi_lacks_is_named(cdi: CdiFacts, told_of: str) -> None:
    assert told(judge(judge_cdi, cdi=cdi, settings=CDI_SETTINGS)) == [(ERROR, told_of)]


def test_in_a_container_nobody_knows_whether_the_node_has_the_hook() -> None:
    cdi = CdiFacts((SPEC,), has_hook=False)
    assert judge(judge_cdi, cdi=cdi, settings=CDI_SETTINGS, runtimes=Unseen("not mounted")) == []


def test_a_runtime_with_cdi_switched_off_is_an_error_for_cdi_strategies() -> None:
    runtime = replace(CONTAINERD, has_cdi=False)
    assert told(judge(judge_cdi, runtimes=(runtime,), settings=CDI_SETTINGS)) == [(ERROR, runtime.path)]


def test_containerd_need_not_use_cdi_where_nvidias_runtime_is_passed_the_names() -> None:
    runtime = replace(passing(CONTAINERD, "cdi.k8s.io/*"), has_cdi=False)
    assert judge(judge_cdi, runtimes=(runtime,), settings=ANNOTATIONS) == []


def test_a_kubelet_that_is_elsewhere_is_an_error_and_its_pod_resources_a_warning() -> None:
    problems = judge(judge_kubelet, kubelet=SocketState.MISSING, pod_resources=SocketState.MISSING)
    assert [problem.severity for problem in problems] == [ERROR, WARNING]


def test_a_socket_that_this_account_may_not_use_asks_for_root() -> None:
    (problem,) = judge(judge_kubelet, kubelet=SocketState.HIDDEN)
    assert (problem.severity, problem.remedy) == (WARNING, "run the doctor as root")


@pytest.mark.parametrize("state", [SocketState.MISSING, SocketState.CLOSED, SocketState.OTHER])
def test_a_plugin_that_does_not_answer_is_an_error(state: SocketState) -> None:
    assert told(judge(judge_plugin, plugin=state)) == [(ERROR, "/var/lib/kubelet/device-plugins/nvidia-gpu.sock")]


def test_two_plugin_processes_are_named_with_their_ids() -> None:
    plugins = (PluginProcess(7, "nvidia-device-plugin"), PluginProcess(9, "gpuloom device-plugin"))
    (problem,) = judge(judge_second_plugin, plugins=plugins)
    assert "pid 7 nvidia-device-plugin; pid 9 gpuloom device-plugin" in problem.text


@pytest.mark.parametrize("foreign", [FOREIGN_ID, f"{FOREIGN_ID}::0"])
def test_ids_that_gpuloom_does_not_make_betray_another_plugin(foreign: str) -> None:
    (problem,) = judge(judge_second_plugin, registered={"nvidia.com/gpu": (foreign,)})
    assert foreign in problem.text


@pytest.mark.parametrize(
    ("settings", "ours", "foreign"),
    [
        (replace(SETTINGS, time_slicing=TimeSlicing({"nvidia.com/gpu": 4})), f"{FOREIGN_ID}::0", f"{FOREIGN_ID}-0"),
        (replace(SETTINGS, mig_strategy="single"), "MIG-1", FOREIGN_ID),
        (SETTINGS, f"{FOREIGN_ID}-0", "MIG-1"),
    ],
)
def test_which_ids_are_ours_depends_on_how_cards_are_shared(settings: NodeSettings, ours: str, foreign: str) -> None:
    (problem,) = judge(judge_second_plugin, settings=settings, registered={"nvidia.com/gpu": (ours, foreign)})
    assert problem.text.endswith(f": {foreign}")


def test_another_resource_may_have_any_ids() -> None:
    assert judge(judge_second_plugin, registered={"example.com/nic": ("eth0",)}) == []


@pytest.mark.parametrize(
    "library",
    [
        Library("/usr/local/vgpu/libvgpu.so", exists=False),
        Library("/usr/local/vgpu/libvgpu.so", exists=True, kind=""),
        Library("/usr/local/vgpu/libvgpu.so", exists=True, kind="aarch64"),
    ],
)
def test_a_library_that_limits_nothing_is_an_error(library: Library) -> None:
    assert told(judge(judge_library, library=library)) == [(ERROR, library.path)]


@pytest.mark.parametrize("preload", [None, (), ("/somewhere/libvgpu.so",)])
def test_a_list_that_does_not_load_the_library_is_an_error(preload: tuple[str, ...] | None) -> None:
    library = Library("/usr/local/vgpu/libvgpu.so", True, "x86_64", preload)
    assert told(judge(judge_preload, library=library)) == [(ERROR, "/usr/local/vgpu/ld.so.preload")]


@pytest.mark.parametrize("judgement", [judge_library, judge_preload, judge_locks])
def test_a_node_of_divided_cards_needs_no_limiter(judgement: object) -> None:
    with pytest.raises(UnseenError, match="divided"):
        judge(judgement, settings=replace(SETTINGS, mode="mig"))  # type: ignore[arg-type]


def test_locks_that_not_everybody_may_use_are_a_warning() -> None:
    assert told(judge(judge_locks, lock_dir_mode=0o755)) == [(WARNING, "/tmp/vgpulock")]


def test_locks_that_everybody_may_delete_are_a_warning() -> None:
    assert told(judge(judge_locks, lock_dir_mode=0o777)) == [(WARNING, "/tmp/vgpulock")]


def test_locks_that_nobody_has_made_yet_are_fine() -> None:
    assert judge(judge_locks, lock_dir_mode=None) == []


def test_a_device_configuration_that_cannot_be_used_is_told() -> None:
    (problem,) = judge(judge_configuration, settings_error="device configuration /x: bad")
    assert (problem.severity, problem.fault) == (ERROR, Fault.INSTALLATION)


def test_a_node_configuration_that_would_be_ignored_is_a_warning() -> None:
    assert told(judge(judge_configuration, node_entry_error="/config/config.json: bad")) == [
        (WARNING, "node configuration")
    ]


def test_a_node_without_a_name_is_a_warning() -> None:
    assert told(judge(judge_configuration, settings=replace(SETTINGS, node_name=""))) == [(WARNING, "NODE_NAME")]


@pytest.mark.parametrize("fact", ["settings_error", "node_entry_error"])
def test_a_configuration_that_this_account_may_not_read_is_skipped(fact: str) -> None:
    with pytest.raises(UnseenError, match="as root"):
        judge(judge_configuration, **{fact: Unseen("run the doctor as root")})
