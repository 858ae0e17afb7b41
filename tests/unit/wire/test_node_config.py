import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import naturals, texts

from gpuloom.wire.errors import WireError
from gpuloom.wire.node_config import FilterDevices, NodeConfig, decode_node_config, encode_node_config

TEXT = (
    b'{"nodeconfig":[{"name":"node1","operatingmode":"hami-core","devicememoryscaling":3,"devicesplitcount":10,'
    b'"devicecorescaling":1,"migstrategy":"none","preconfigureddevicememory":0,"libcudaloglevel":"1",'
    b'"enablenumatopology":false,"filterdevices":{"uuid":["GPU-a"],"index":[2]},"enablegetpreferredallocation":false}]}'
)

configs = st.builds(
    NodeConfig,
    name=st.just("node1"),
    operating_mode=texts,
    device_memory_scaling=st.floats(0, 1e6),
    device_split_count=naturals,
    enable_numa_topology=st.booleans(),
    filter_devices=st.builds(
        FilterDevices, st.lists(texts, max_size=3).map(tuple), st.lists(naturals, max_size=3).map(tuple)
    ),
)


def test_the_nodes_entry_is_read():
    assert decode_node_config(TEXT, "node1") == NodeConfig(
        name="node1",
        operating_mode="hami-core",
        device_memory_scaling=3.0,
        device_split_count=10,
        device_core_scaling=1.0,
        mig_strategy="none",
        lib_cuda_log_level="1",
        filter_devices=FilterDevices(("GPU-a",), (2,)),
    )


@pytest.mark.parametrize("node", ["node", "node10", "NODE1", ""])
def test_another_nodes_entry_has_no_effect(node):
    assert decode_node_config(TEXT, node) is None


def test_keys_are_read_in_any_letter_case():
    text = b'{"NodeConfig":[{"Name":"n","DeviceSplitCount":4,"FilterDevices":{"UUID":["a"],"Index":[1]}}]}'
    assert decode_node_config(text, "n") == NodeConfig(
        name="n", device_split_count=4, filter_devices=FilterDevices(("a",), (1,))
    )


@pytest.mark.parametrize("filters", [b"null", b'{"uuid":null,"index":[1]}', b'{"uuid":[],"index":[1],"Index":null}'])
def test_a_filter_without_a_value_is_empty(filters):
    text = b'{"nodeconfig":[{"name":"n","devicesplitcount":4,"filterdevices":%s}]}' % filters
    found = FilterDevices((), (1,) if b"1" in filters else ())
    assert decode_node_config(text, "n") == NodeConfig(name="n", device_split_count=4, filter_devices=found)


def test_a_broken_entry_of_another_node_does_no_harm():
    text = b'{"nodeconfig":[{"name":"other","devicesplitcount":"many"},7,{"name":"n"}]}'
    assert decode_node_config(text, "n") == NodeConfig(name="n")


def test_of_two_entries_the_last_one_counts():
    text = b'{"nodeconfig":[{"name":"n","devicesplitcount":1},{"name":"n","devicesplitcount":2}]}'
    assert decode_node_config(text, "n") == NodeConfig(name="n", device_split_count=2)


@pytest.mark.parametrize("entry", [b'"devicesplitcount":-1', b'"devicememoryscaling":-1', b'"filterdevices":[]'])
def test_a_broken_entry_of_the_node_is_an_error_that_names_it(entry):
    with pytest.raises(WireError, match="entry of node n: "):
        decode_node_config(b'{"nodeconfig":[{"name":"n",%s}]}' % entry, "n")


@pytest.mark.parametrize("text", [b"", b"[]", b"nodeconfig: []", b'{"nodeconfig":{}}'])
def test_a_file_of_another_shape_is_an_error(text):
    with pytest.raises(WireError):
        decode_node_config(text, "n")


def test_a_file_without_entries_has_no_effect():
    assert decode_node_config(b'{"nodeconfig":null}', "n") is None


@given(configs)
def test_node_configurations_round_trip(config):
    assert decode_node_config(encode_node_config(NodeConfig(name="other"), config).encode(), "node1") == config
