import pytest
from builders import NVIDIA

from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.vendors.profile import ContainerChanges, ProfileError, RequestDefaults, ResourceNames

TEXT = b"""
nvidia:
  resourceCountName: example.com/gpu
  resourceMemoryName: example.com/memory
  overwriteEnv: true
  defaultMemory: 1024
  defaultGPUNum: 2
  runtimeClassName: nvidia
"""
PARSED = {
    "nvidia": {
        "resourceCountName": "example.com/gpu",
        "resourceMemoryName": "example.com/memory",
        "overwriteEnv": True,
        "defaultMemory": 1024,
        "defaultGPUNum": 2,
        "runtimeClassName": "nvidia",
    }
}


@pytest.mark.parametrize("source", [TEXT, PARSED], ids=["text", "parsed"])
def test_a_configuration_replaces_the_profiles_values_as_a_whole(source):
    (profile,) = apply_device_config(load_shipped(), source, "device-config.yaml")
    assert profile.resources == ResourceNames(count="example.com/gpu", memory="example.com/memory")
    assert profile.request == RequestDefaults(
        default_cards=2, default_memory_mib=1024, memory_factor=0, forgives_cores=True
    )
    assert profile.container == ContainerChanges(mutate="complete-share", hide_cards=True, runtime_class="nvidia")


def test_a_configuration_leaves_the_checks_alone():
    assert apply_device_config(load_shipped(), TEXT, "device-config.yaml")[0].fit == NVIDIA.fit


def test_a_broken_configuration_is_an_error_that_names_the_file():
    with pytest.raises(ProfileError, match=r"^device-config\.yaml: all configurations are empty$"):
        apply_device_config(load_shipped(), b"nvidia: {}", "device-config.yaml")


@pytest.mark.parametrize("key", [1, True, 1.5])
def test_a_key_that_is_no_text_is_passed_over(key):
    sections = {**PARSED, "amd": {"resourceCountName": "amd.com/gpu", key: 7}}
    assert len(apply_device_config(load_shipped(), sections, "device-config.yaml")) == 2


def test_a_number_of_thousands_of_digits_is_an_error_that_names_the_file():
    with pytest.raises(ProfileError, match=r"^device-config\.yaml: a number has more than 64 bits$"):
        apply_device_config(load_shipped(), b"nvidia: {runtimeClassName: 0x" + b"f" * 6000 + b"}", "device-config.yaml")


def test_a_geometry_of_more_instances_than_a_card_has_slices_is_an_error_that_names_the_key():
    geometry = {"models": ["A30"], "allowedGeometries": [[{"name": "1g.6gb", "memory": 6144, "count": 65}]]}
    with pytest.raises(
        ProfileError, match=r"^c: nvidia\.knownMigGeometries: a geometry of 65 instances, more than any"
    ):
        apply_device_config(load_shipped(), {"nvidia": {"knownMigGeometries": [geometry]}}, "c")
