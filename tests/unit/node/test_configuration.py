"""Flags, device configuration and node configuration, and who wins (device plugin 5)."""

import json
import math
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpuloom.node.configuration import configure
from gpuloom.node.errors import ConfigurationError
from gpuloom.node.settings import InjectionSettings

COMPLETE = """
nvidia:
  resourceCountName: nvidia.com/gpu
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1
"""


@pytest.fixture
def files(tmp_path):
    return tmp_path / "device-config.yaml", tmp_path / "config.json"


@pytest.fixture
def load(settings, files):
    """Settings from flags and the two files, neither of which need be there."""

    def make(device=None, node=None, **flags):
        device_config, node_config = files
        if device is not None:
            device_config.write_text(device)
        if node is not None:
            node_config.write_text(node if isinstance(node, str) else json.dumps({"nodeconfig": node}))
        return configure(replace(settings, **flags), device_config if device is not None else None, node_config)

    return make


def with_keys(**changes):
    return COMPLETE + "".join(f"  {key}: {value}\n" for key, value in changes.items())


def test_without_files_the_flags_count(load):
    assert load(device_split_count=3).device_split_count == 3


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("preConfiguredDeviceMemory", 4096, "preconfigured_memory_mib", 4096),
        ("disableCoreLimit", "true", "disable_core_limit", True),
        ("libCudaLogLevel", '"3"', "lib_cuda_log_level", "3"),
        ("enableNumaTopology", "true", "enable_numa_topology", True),
    ],
)
def test_the_device_configuration_sets(load, key, value, name, expected):
    assert getattr(load(with_keys(**{key: value})), name) == expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (COMPLETE.replace("nvidia.com/gpu", "acme.com/gpu"), "resource_name", "acme.com/gpu"),
        (COMPLETE.replace("10", "7"), "device_split_count", 7),
        (COMPLETE.replace("MemoryScaling: 1", "MemoryScaling: 1.5"), "device_memory_scaling", 1.5),
        (COMPLETE.replace("CoreScaling: 1", "CoreScaling: 2"), "device_core_scaling", 2),
    ],
)
def test_the_device_configuration_says_how_cards_are_shared(load, text, name, expected):
    assert getattr(load(text), name) == expected


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("devicememoryscaling", 3, "device_memory_scaling", 3),
        ("devicecorescaling", 2, "device_core_scaling", 2),
        ("devicesplitcount", 4, "device_split_count", 4),
        ("preconfigureddevicememory", 100, "preconfigured_memory_mib", 100),
        ("libcudaloglevel", "4", "lib_cuda_log_level", "4"),
        ("enablenumatopology", True, "enable_numa_topology", True),
        ("enablegetpreferredallocation", True, "enable_preferred_allocation", True),
        ("filterdevices", {"uuid": ["GPU-a"]}, "filter_uuids", frozenset({"GPU-a"})),
        ("filterdevices", {"index": [1]}, "filter_indexes", frozenset({1})),
    ],
)
def test_the_nodes_own_entry_sets(load, key, value, name, expected):
    assert getattr(load(COMPLETE, [{"name": "n1", key: value}]), name) == expected


def test_the_nodes_own_entry_wins_over_the_device_configuration(load):
    assert load(COMPLETE, [{"name": "n1", "devicesplitcount": 4}]).device_split_count == 4


@pytest.mark.parametrize("value", [0, None])
def test_zero_in_the_nodes_own_entry_does_not_count(load, value):
    assert load(COMPLETE, [{"name": "n1", "devicesplitcount": value}]).device_split_count == 10


@pytest.mark.parametrize("name", ["n2", "N1", "n1 "])
def test_an_entry_of_another_name_has_no_effect(load, name):
    assert load(COMPLETE, [{"name": name, "devicesplitcount": 4}]).device_split_count == 10


def test_p_09_a_flag_that_the_device_configuration_overrides_is_a_warning(load):
    with capture_logs() as logs:
        load(COMPLETE, device_split_count=5)
    assert [(entry["setting"], entry["flag"], entry["used"]) for entry in logs if entry["log_level"] == "warning"] == [
        ("deviceSplitCount", 5, 10)
    ]


def test_a_flag_fills_what_the_device_configuration_leaves_out(load):
    assert load("nvidia:\n  resourceCountName: a/b\n", device_split_count=5).device_split_count == 5


def test_what_the_device_configuration_leaves_out_is_a_warning(load):
    with capture_logs() as logs:
        load("nvidia:\n  resourceCountName: a/b\n")
    assert [entry["setting"] for entry in logs if entry["log_level"] == "warning"] == [
        "deviceSplitCount",
        "deviceMemoryScaling",
        "deviceCoreScaling",
    ]


def test_p_08_a_broken_node_configuration_does_not_stop_the_node(load):
    with capture_logs() as logs:
        assert load(COMPLETE, "{").device_split_count == 10
    assert [entry["log_level"] for entry in logs] == ["error"]


@pytest.mark.parametrize("text", ["nvidia: [", "nvidia: 1", "", "nvidia:\n  deviceSplitCount: many\n"])
def test_a_broken_device_configuration_is_named(load, files, text):
    with pytest.raises(ConfigurationError, match=f"device configuration {files[0]}: "):
        load(text)


def test_a_missing_device_configuration_is_named(settings, tmp_path):
    with pytest.raises(ConfigurationError, match=r"none\.yaml: No such file"):
        configure(settings, tmp_path / "none.yaml", None)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"device_split_count": 0}, r"deviceSplitCount \(--device-split-count\) is 0"),
        ({"device_split_count": 2**31 - 1}, "--device-split-count.*more than the 4000 shares of a card"),
        ({"device_memory_scaling": 0.0}, r"deviceMemoryScaling \(--device-memory-scaling\) is 0"),
        ({"device_memory_scaling": math.inf}, "--device-memory-scaling.* is inf"),
        ({"device_core_scaling": math.nan}, "--device-cores-scaling.* is nan"),
        ({"device_core_scaling": -1.0}, r"deviceCoreScaling \(--device-cores-scaling\) is -1"),
        ({"lib_cuda_log_level": "2"}, r"libCudaLogLevel \(--lib-cuda-log-level\) is '2'"),
    ],
)
def test_a_value_that_cannot_be_is_refused(load, flags, text):
    with pytest.raises(ConfigurationError, match=text):
        load(**flags)


def slice_in_time(**more):
    resources = [{"name": "nvidia.com/gpu", "replicas": 4, **more.pop("resource", {})}]
    sharing = {"timeSlicing": {"resources": resources, **more}}
    return f"{COMPLETE}sharing: {json.dumps(sharing)}\n"


def test_mps_is_refused(load):
    with pytest.raises(ConfigurationError, match=r"sharing\.mps is not supported"):
        load(f"{COMPLETE}sharing:\n  mps:\n    resources: [a]\n")


def test_slices_in_time_are_taken_over(load):
    slicing = load(slice_in_time(failRequestsGreaterThanOne=True)).time_slicing
    assert (slicing.slices, slicing.refuses_many) == ({"nvidia.com/gpu": 4}, True)


@pytest.mark.parametrize("more", [{"renameByDefault": True}, {"resource": {"rename": "acme.com/gpu"}}])
def test_resources_keep_their_names(load, more):
    with capture_logs() as logs:
        settings = load(slice_in_time(**more))
    warned = [log["log_level"] for log in logs if "rename" in log["event"]]
    assert (settings.resource_name, warned) == ("nvidia.com/gpu", ["warning"])


@pytest.mark.parametrize(
    ("sharing", "text"),
    [
        ("{timeSlicing: {resources: [{name: a, replicas: 1}]}}", "replicas is 1, but must be at least 2"),
        ("{timeSlicing: {resources: [{name: a, replicas: 5000}]}}", "replicas is 5000, more than the 4000 shares"),
        ("{timeSlicing: {resources: [{name: a, replicas: 2, devices: [0]}]}}", "devices must be all"),
        ("{timeSlicing: {resources: [{name: a}]}}", "replicas"),
        ("{timeSlicing: [a]}", "sharing"),
        ("[a]", "sharing"),
    ],
)
def test_slices_that_cannot_be_are_named(load, sharing, text):
    with pytest.raises(ConfigurationError, match=text):
        load(f"{COMPLETE}sharing: {sharing}\n")


@pytest.mark.parametrize("mode", ["mps", "magic"])
def test_an_unknown_operating_mode_is_refused(load, mode):
    with pytest.raises(ConfigurationError, match=f"operatingmode '{mode}' of node n1"):
        load(COMPLETE, [{"name": "n1", "operatingmode": mode}])


MIG = COMPLETE + "  migProfileAllowlist:\n  - models: [A100]\n    profiles: [1g.5gb]\n"


def test_mode_mig_takes_the_allowed_profiles_over(load):
    settings = load(MIG, [{"name": "n1", "operatingmode": "mig"}])
    assert (settings.mode, settings.mig_allowlist[0].profiles) == ("mig", ("1g.5gb",))


def test_an_allowlist_alone_divides_nothing(load):
    assert load(MIG, [{"name": "n1"}]).mode == "hami-core"


def test_mode_mig_without_allowed_profiles_is_refused(load):
    with pytest.raises(ConfigurationError, match="needs migProfileAllowlist"):
        load(COMPLETE, [{"name": "n1", "operatingmode": "mig"}])


@pytest.mark.parametrize("change", [{"id_strategy": "index"}, {"device_specs": True}])
def test_mode_mig_names_instances_by_uuid_alone(load, change):
    with pytest.raises(ConfigurationError, match="MIG instances are named by their UUID"):
        load(MIG, [{"name": "n1", "operatingmode": "mig"}], injection=InjectionSettings(**change))


def test_geometries_divide_cards_in_the_older_way(load):
    text = COMPLETE + "  knownMigGeometries:\n  - models: [A30]\n    allowedGeometries: [[{name: 1g.6gb, count: 4}]]\n"
    settings = load(text, [{"name": "n1", "operatingmode": "mig"}])
    assert settings.mig_geometries[0].allowed_geometries[0][0].name == "1g.6gb"


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_a_node_says_what_becomes_of_an_administrators_instances(load, strategy):
    flags = {"mig_strategy": "mixed" if strategy == "none" else "none"}
    assert load(COMPLETE, [{"name": "n1", "migstrategy": strategy}], **flags).mig_strategy == strategy


def test_an_unknown_strategy_is_refused(load):
    with pytest.raises(ConfigurationError, match="migstrategy 'all' of node n1 is not supported, only none, single"):
        load(COMPLETE, [{"name": "n1", "migstrategy": "all"}])


@pytest.mark.parametrize("change", [{"id_strategy": "index"}, {"device_specs": True}])
def test_an_administrators_instances_are_named_by_uuid_alone(load, change):
    with pytest.raises(ConfigurationError, match="MIG instances are named by their UUID"):
        load(COMPLETE, mig_strategy="mixed", injection=InjectionSettings(**change))


def test_cards_are_divided_by_pods_or_by_an_administrator(load):
    with pytest.raises(ConfigurationError, match="choose one of them"):
        load(MIG, [{"name": "n1", "operatingmode": "mig", "migstrategy": "single"}])


def test_instances_for_single_containers_are_not_sliced(load):
    with pytest.raises(ConfigurationError, match=r"leave sharing\.timeSlicing out"):
        load(MIG + slice_in_time().removeprefix(COMPLETE), [{"name": "n1", "operatingmode": "mig"}])


def test_instances_that_are_the_nodes_cards_are_not_shared_without_limits(load):
    with pytest.raises(ConfigurationError, match="would let containers share an instance without limits"):
        load(slice_in_time(), mig_strategy="single")
