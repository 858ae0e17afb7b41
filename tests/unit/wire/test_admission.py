import base64
import json
import sys
from collections import Counter

import pytest
from hypothesis import given
from unit.wire.strategies import texts

from gpuloom.wire.admission import Verdict, decode_pod, decode_review, encode_review, escape_pointer
from gpuloom.wire.errors import WireError

PATCH = [{"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}]


def review(**changes):
    fields = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u", "namespace": "ns", "object": {"metadata": {"name": "p"}}},
    } | changes
    return json.dumps(fields).encode()


def reply(verdict, api_version="admission.k8s.io/v1"):
    return json.loads(encode_review(api_version, "u", verdict))


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_both_versions_are_read(version):
    read = decode_review(review(apiVersion=version))
    assert (read.api_version, read.uid, read.namespace) == (version, "u", "ns")


def test_the_pod_stays_undecoded_until_it_is_wanted():
    assert decode_pod(decode_review(review()).pod).name == "p"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        review(kind="Pod"),
        review(apiVersion="admission.k8s.io/v2"),
        review(apiVersion=""),
        review(request=None),
        review(request={"uid": 7}),
    ],
)
def test_anything_else_is_no_review(body):
    with pytest.raises(WireError, match="AdmissionReview"):
        decode_review(body)


@pytest.mark.parametrize("pod", [b"null", b"[]", b'{"spec":7}', b'{"metadata":{"name":"\xff"}}'])
def test_a_broken_pod_is_an_error(pod):
    with pytest.raises(WireError):
        decode_pod(pod)


def test_containers_are_counted_before_they_are_looked_into():
    calls = Counter[str]()
    sys.setprofile(lambda _frame, event, _of: calls.update([event]))
    try:
        with pytest.raises(WireError, match="pod has 9000 containers, at most 1000 are taken"):
            decode_pod(b'{"spec":{"containers":[%s]}}' % b",".join([b"{}"] * 9000))
    finally:
        sys.setprofile(None)
    assert calls["call"] < 2000


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_a_reply_has_the_version_and_id_of_its_request(version):
    answer = reply(Verdict(allowed=True), version)
    assert (answer["kind"], answer["apiVersion"], answer["response"]["uid"]) == ("AdmissionReview", version, "u")


def test_allowed_without_changes_has_no_patch():
    assert reply(Verdict(allowed=True))["response"] == {"uid": "u", "allowed": True, "status": {"code": 200}}


def test_changes_are_a_json_patch_in_base64():
    response = reply(Verdict(allowed=True, patch=PATCH))["response"]
    assert (response["patchType"], json.loads(base64.b64decode(response["patch"]))) == ("JSONPatch", PATCH)


def test_a_denial_has_code_reason_and_message():
    verdict = Verdict(allowed=False, code=403, reason="Forbidden", message="pod has no containers")
    assert reply(verdict)["response"] == {
        "uid": "u",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "pod has no containers"},
    }


def test_slash_and_tilde_in_a_pointer_are_escaped():
    assert escape_pointer("hami.io/a~b") == "hami.io~1a~0b"


@given(texts)
def test_escaped_keys_can_be_read_back(key):
    escaped = escape_pointer(key)
    assert "/" not in escaped
    assert escaped.replace("~1", "/").replace("~0", "~") == key
