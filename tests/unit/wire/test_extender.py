import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import texts

from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import (
    BindArgs,
    BindResult,
    FailedNodes,
    FilterArgs,
    FilterResult,
    decode_bind_args,
    decode_filter_args,
    decode_node_list,
    encode_node_list,
    encode_result,
)

NODE = '{"metadata":{"name":"n1","annotations":{"a":"b"}},"spec":{"podCIDR":"10.0.0.0/24"},"extra":[1, 2]}'


def names_of(args: FilterArgs) -> list[str] | None:
    return None if args.nodenames is None else args.nodenames.all()


def test_a_filter_call_names_pod_and_nodes():
    args = decode_filter_args(b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["n1","n2"]}')
    assert (args.pod and args.pod.name, args.nodes, names_of(args)) == ("p", None, ["n1", "n2"])


@pytest.mark.parametrize("keys", [("pod", "nodes", "nodeNames"), ("POD", "NODES", "nodenames")])
def test_filter_calls_are_read_in_any_letter_case(keys):
    body = json.dumps(dict(zip(keys, [{"metadata": {"name": "p"}}, None, ["n1"]], strict=True)))
    args = decode_filter_args(body.encode())
    assert (args.pod and args.pod.name, names_of(args)) == ("p", ["n1"])


def test_an_empty_filter_call_has_nothing():
    args = decode_filter_args(b"{}")
    assert (args.pod, args.nodes, args.nodenames) == (None, None, None)


def test_a_bind_call_names_pod_and_node():
    body = b'{"PodName":"p","podNamespace":"ns","PODUID":"u","node":"n1"}'
    assert decode_bind_args(body) == BindArgs("p", "ns", "u", "n1")


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"Pod":', b'{"NodeNames":"n1"}', b'{"Pod":[]}'])
def test_a_broken_filter_call_is_an_error(body):
    with pytest.raises(WireError):
        decode_filter_args(body)


def test_a_cut_body_says_so():
    with pytest.raises(WireError, match="truncated"):
        decode_filter_args(b'{"Pod":{"metadata":{"na')


def test_a_filter_reply_has_all_fields():
    assert encode_result(FilterResult(node_names=["n1"])) == (
        b'{"Nodes":null,"NodeNames":["n1"],"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}'
    )


def test_a_bind_reply_has_its_error():
    assert encode_result(BindResult()) == b'{"Error":""}'


def test_whole_nodes_are_decoded_and_kept():
    args = decode_filter_args(b'{"Nodes":{"metadata":{},"items":[%s]}}' % NODE.encode())
    assert args.nodes is not None
    (received,) = decode_node_list(args.nodes)
    assert (received.node.name, bytes(received.raw)) == ("n1", NODE.encode())


def test_whole_nodes_go_back_exactly_as_they_came():
    nodes = decode_node_list(msgspec.Raw(b'{"Items":[%s]}' % NODE.encode()))
    assert encode_result(FilterResult(nodes=encode_node_list(nodes))) == (
        b'{"Nodes":{"metadata":{},"items":[%s]},"NodeNames":null,"FailedNodes":null,'
        b'"FailedAndUnresolvableNodes":null,"Error":""}' % NODE.encode()
    )


@pytest.mark.parametrize("nodes", [b"[]", b'{"items":[1]}', b'{"items":[{"metadata":7}]}', b'{"items":{}}'])
def test_a_broken_node_list_is_an_error(nodes):
    with pytest.raises(WireError):
        decode_node_list(msgspec.Raw(nodes))


def test_a_node_list_without_items_is_empty():
    assert decode_node_list(msgspec.Raw(b'{"items":null}')) == ()


@given(st.builds(BindArgs, texts, texts, texts, texts))
def test_bind_calls_round_trip(args):
    body = {"PodName": args.podname, "PodNamespace": args.podnamespace, "PodUID": args.poduid, "Node": args.node}
    assert decode_bind_args(json.dumps(body).encode()) == args


@given(st.dictionaries(texts, texts, max_size=3), texts)
def test_nodes_that_are_told_of_in_many_replies_are_written_as_in_one(failed, error):
    plain = encode_result(FilterResult(failed_nodes=failed, error=error))
    shared = FailedNodes(failed)
    assert [encode_result(FilterResult(failed_nodes=shared, error=error)) for _ in range(2)] == [plain, plain]


def test_nodes_from_which_nobody_is_to_be_evicted_are_named_in_a_field_of_their_own():
    """binding 12."""
    reply = encode_result(FilterResult(failed_nodes=FailedNodes(n1="full")).as_unresolvable())
    assert reply == (
        b'{"Nodes":null,"NodeNames":null,"FailedNodes":null,"FailedAndUnresolvableNodes":{"n1":"full"},"Error":""}'
    )


@given(st.lists(texts, max_size=3), st.dictionaries(texts, texts, max_size=3), texts)
def test_filter_replies_are_read_back_by_a_plain_json_reader(names, failed, error):
    result = FilterResult(node_names=names, failed_nodes=failed, error=error)
    assert json.loads(encode_result(result)) == {
        "Nodes": None,
        "NodeNames": names,
        "FailedNodes": failed,
        "FailedAndUnresolvableNodes": None,
        "Error": error,
    }
