import json

import pytest

from gpuloom.wire.errors import WireError
from gpuloom.wire.preemption import NodeVictims, decode_preemption_args, encode_preemption_result

META = {"n1": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}}


def test_a_call_names_the_victims_by_uid():
    body = {"Pod": {"metadata": {"name": "p"}}, "NodeNameToVictims": None, "NodeNameToMetaVictims": META}
    args = decode_preemption_args(json.dumps(body).encode())
    assert (args.pod and args.pod.name, args.victims) == ("p", {"n1": NodeVictims(("u1", "u2"), 1)})


def test_keys_come_in_any_letter_case_and_null_is_absent():
    body = b'{"nodenameToMetavictims":{"N1":{"pods":null,"numPDBViolations":2}},"pod":null}'
    args = decode_preemption_args(body)
    assert (args.pod, args.victims) == (None, {"N1": NodeVictims((), 2)})


def test_whole_pods_are_read_for_their_uid():
    body = b'{"NodeNameToVictims":{"n1":{"Pods":[{"metadata":{"uid":"u1"},"spec":{"x":[]}}],"NumPDBViolations":0}}}'
    assert decode_preemption_args(body).victims == {"n1": NodeVictims(("u1",), 0)}


def test_an_empty_call_has_nothing():
    args = decode_preemption_args(b"{}")
    assert (args.pod, args.victims) == (None, {})


@pytest.mark.parametrize("body", [b"", b"[]", b'{"NodeNameToMetaVictims":[]}', b'{"NodeNameToMetaVictims":{"n":3}}'])
def test_a_broken_call_is_an_error(body):
    with pytest.raises(WireError):
        decode_preemption_args(body)


def test_a_reply_has_the_fields_of_kube_scheduler():
    reply = encode_preemption_result({"n1": NodeVictims(("u1", "u2"), 1)})
    assert json.loads(reply) == {"NodeNameToMetaVictims": META}


def test_a_reply_without_nodes_is_an_empty_map():
    assert encode_preemption_result({}) == b'{"NodeNameToMetaVictims":{}}'
