import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import int32s, naturals, texts

from gpuloom.wire.device_config import (
    MigAllowlist,
    MigEntry,
    MigGeometries,
    NvidiaConfig,
    decode_device_config,
    encode_device_config,
)
from gpuloom.wire.errors import WireError

CHART = b"""
nvidia:
  resourceCountName: nvidia.com/gpu
  resourceMemoryName: nvidia.com/gpumem
  resourceMemoryPercentageName: nvidia.com/gpumem-percentage
  resourceCoreName: nvidia.com/gpucores
  resourcePriorityName: nvidia.com/priority
  overwriteEnv: false
  defaultMemory: 0
  defaultCores: 0
  defaultGPUNum: 1
  memoryFactor: 1
  gpuCorePolicy: default
  runtimeClassName: ""
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1.5
  preConfiguredDeviceMemory: 0
  libCudaLogLevel: 1
  disableCoreLimit:
  knownMigGeometries:
    - models: ["A30"]
      allowedGeometries:
        - - {name: 1g.6gb, core: 25, memory: 6144, count: 4}
        - - {name: 2g.12gb, core: 50, memory: 12288, count: 2}
  migProfileAllowlist:
    - models: ["A30"]
      profiles: ["1g.6gb", "2g.12gb"]
metax:
  resourceCountName: metax-tech.com/gpu
"""

geometries = st.builds(
    MigGeometries,
    st.lists(texts, max_size=2).map(tuple),
    st.lists(st.lists(st.builds(MigEntry, texts, int32s, int32s, naturals), max_size=2).map(tuple), max_size=2).map(
        tuple
    ),
)
names = st.text(st.characters(categories=["L", "N", "P"]), max_size=8)
configs = st.builds(
    NvidiaConfig,
    resource_count_name=names.filter(bool),
    default_memory_mib=int32s,
    default_cards=int32s,
    overwrite_env=st.booleans(),
    device_split_count=naturals,
    device_memory_scaling=st.floats(0, 100),
    pre_configured_device_memory_mib=st.integers(0, 2**63 - 1),
    lib_cuda_log_level=names,
    known_mig_geometries=st.lists(geometries, max_size=2).map(tuple),
    mig_profile_allowlist=st.just((MigAllowlist(("A30",), ("1g.6gb",)),)),
)


def test_the_charts_file_is_read():
    assert decode_device_config(CHART) == NvidiaConfig(
        resource_count_name="nvidia.com/gpu",
        resource_memory_name="nvidia.com/gpumem",
        resource_memory_percentage_name="nvidia.com/gpumem-percentage",
        resource_core_name="nvidia.com/gpucores",
        resource_priority_name="nvidia.com/priority",
        default_cards=1,
        memory_factor=1,
        gpu_core_policy="default",
        device_split_count=10,
        device_memory_scaling=1.0,
        device_core_scaling=1.5,
        lib_cuda_log_level="1",
        known_mig_geometries=(
            MigGeometries(("A30",), ((MigEntry("1g.6gb", 25, 6144, 4),), (MigEntry("2g.12gb", 50, 12288, 2),))),
        ),
        mig_profile_allowlist=(MigAllowlist(("A30",), ("1g.6gb", "2g.12gb")),),
    )


def test_absent_keys_are_zero_not_the_charts_values():
    config = decode_device_config(b"nvidia: {resourceCountName: nvidia.com/gpu}")
    assert config == NvidiaConfig(resource_count_name="nvidia.com/gpu")


def test_a_parsed_configuration_is_read_alike():
    parsed = {"nvidia": {"resourceCountName": "nvidia.com/gpu", "libCudaLogLevel": 1, "defaultGPUNum": 1}}
    assert decode_device_config(parsed) == NvidiaConfig(
        resource_count_name="nvidia.com/gpu", lib_cuda_log_level="1", default_cards=1
    )


def test_a_file_for_other_vendors_gives_an_empty_section():
    assert decode_device_config(b"metax: {resourceCountName: metax-tech.com/gpu}") == NvidiaConfig()


@pytest.mark.parametrize("text", [b"", b"{}", b"nvidia:", b"nvidia: {}", b"nvidia: {resourceCountName: ''}\nmetax: {}"])
def test_a_file_that_configures_nothing_is_an_error(text):
    with pytest.raises(WireError, match=r"^all configurations are empty$"):
        decode_device_config(text)


@pytest.mark.parametrize(
    "allowlist", ["{models: [A30]}", "{profiles: [1g.6gb]}", "{models: [], profiles: [1g.6gb]}", "{}"]
)
def test_an_allowlist_needs_models_and_profiles(allowlist):
    with pytest.raises(WireError, match=r"^MIG profile allowlist must define models and profiles$"):
        decode_device_config(f"nvidia: {{defaultGPUNum: 1, migProfileAllowlist: [{allowlist}]}}".encode())


@pytest.mark.parametrize("profile", ["", "1g", "1g.", "g.5gb", "1c.5gb", " 1g.5gb"])
def test_an_allowlist_names_mig_profiles(profile):
    parsed = {"nvidia": {"migProfileAllowlist": [{"models": ["A30"], "profiles": ["1g.6gb", profile]}]}}
    with pytest.raises(WireError, match=f'^invalid MIG profile "{profile}"$'):
        decode_device_config(parsed)


@pytest.mark.parametrize(
    "text",
    [
        b"nvidia: [",
        b"- nvidia",
        b"nvidia: 5",
        b"nvidia: {defaultMemory: 2147483648}",
        b"nvidia: {deviceSplitCount: -1}",
        b"nvidia: {defaultCores: '1'}",
        b"nvidia: {deviceMemoryScaling: .nan}",
        b"nvidia: {deviceCoreScaling: -1}",
        b"nvidia: {deviceCoreScaling: .inf}",
        b"nvidia: {overwriteEnv: 1}",
        b"nvidia: {knownMigGeometries: [{models: [A30], allowedGeometries: [null]}]}",
        b"nvidia: !!int x",
        b"nvidia: !!bool x",
        b"nvidia: !!timestamp x",
        b"nvidia: &a [*a]",
    ],
)
def test_what_cannot_be_read_is_an_error(text):
    with pytest.raises(WireError):
        decode_device_config(text)


@given(configs)
def test_configurations_round_trip(config):
    assert decode_device_config(encode_device_config(config)) == config
