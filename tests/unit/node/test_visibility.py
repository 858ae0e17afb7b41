"""How containers are shown their cards (device plugin 10.3 and 13)."""

import pytest

from gpuloom.node.errors import AllocationError
from gpuloom.node.nvml import Gpu
from gpuloom.node.response import DeviceFile, HostFacts, Mount
from gpuloom.node.settings import InjectionSettings
from gpuloom.node.visibility import show_cards

GPUS = {
    uuid: Gpu(uuid=uuid, index=index, name="", memory_mib=1, pci_bus_id="", minor=index + 4)
    for index, uuid in enumerate(("GPU-a", "GPU-b"))
}
CDI = "k8s.device-plugin.nvidia.com"


def show(*uuids, gpus=GPUS, control=("/dev/nvidiactl",), **settings):
    host = HostFacts("/lib", control_files=control)
    return show_cards(uuids or ("GPU-b", "GPU-a"), InjectionSettings(**settings), gpus, host, request_id="1-2")


def test_cards_are_named_in_the_environment_in_the_order_of_the_entry():
    assert show().environment == {"NVIDIA_VISIBLE_DEVICES": "GPU-b,GPU-a"}


def test_a_card_given_twice_is_named_once():
    assert show("GPU-a", "GPU-b", "GPU-a").environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"


def test_cards_may_be_named_by_index():
    assert show(id_strategy="index").environment["NVIDIA_VISIBLE_DEVICES"] == "1,0"


def test_a_card_that_the_node_does_not_have_has_no_index():
    with pytest.raises(AllocationError, match="card GPU-z, which this node does not offer"):
        show("GPU-z", id_strategy="index")


def test_cards_may_be_named_by_mounts():
    shown = show("GPU-a", list_strategies=("volume-mounts",))
    assert shown.environment == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
    assert shown.mounts == (Mount("/var/run/nvidia-container-devices/GPU-a", "/dev/null", read_only=False),)


def test_device_files_are_those_of_the_driver_and_of_the_cards():
    assert show("GPU-b", device_specs=True, dev_root="/driver").device_files == (
        DeviceFile("/dev/nvidiactl", "/driver/dev/nvidiactl"),
        DeviceFile("/dev/nvidia5", "/driver/dev/nvidia5"),
    )


def test_device_files_are_passed_only_where_that_is_wanted():
    assert show().device_files == ()


def test_a_card_without_a_device_file_cannot_be_passed():
    with pytest.raises(AllocationError, match="GPU-a has no device file"):
        show("GPU-a", device_specs=True, gpus={"GPU-a": Gpu("GPU-a", 0, "", 1, "")})


@pytest.mark.parametrize(("part", "name"), [("gdrcopy", "GDRCOPY"), ("gds", "GDS"), ("mofed", "MOFED")])
def test_parts_of_the_driver_are_enabled_in_the_environment(part, name):
    assert show(driver_parts=(part,)).environment[f"NVIDIA_{name}"] == "enabled"


def test_imex_channels_are_named_in_the_environment():
    assert show(imex_channels=(0, 2)).environment["NVIDIA_IMEX_CHANNELS"] == "0,2"


def test_cdi_devices_may_stand_in_an_annotation():
    assert show(list_strategies=("cdi-annotations",)).annotations == {
        "cdi.k8s.io/nvidia-device-plugin_1-2": f"{CDI}/gpu=GPU-b,{CDI}/gpu=GPU-a"
    }


def test_cdi_devices_may_be_told_to_the_kubelet():
    shown = show("GPU-a", list_strategies=("cdi-cri",), driver_parts=("gds",), imex_channels=(3,))
    assert shown.cdi_devices == (f"{CDI}/gpu=GPU-a", f"{CDI}/imex-channel=3", f"{CDI}/gds=all")


def test_with_cdi_alone_nothing_else_is_told():
    shown = show(list_strategies=("cdi-cri", "cdi-annotations"), device_specs=True, driver_parts=("gds",))
    assert (shown.environment, shown.mounts, shown.device_files) == ({}, (), ())


def test_cdi_may_stand_beside_the_environment():
    shown = show("GPU-a", list_strategies=("envvar", "cdi-cri"))
    assert (shown.environment["NVIDIA_VISIBLE_DEVICES"], shown.cdi_devices) == ("GPU-a", (f"{CDI}/gpu=GPU-a",))
