"""What kube-apiserver refuses: names, labels, and the parts of pods that schedulers rely on.

Far from everything that the real server checks: the rules whose breach a client of gpuloom could meet.
"""

import re
from collections.abc import Iterator

from gpuloom.local.apiserver.kinds import EVENTS, LEASES, MUTATING_WEBHOOKS, NAMESPACES, PODS, SERVICES, Kind
from gpuloom.local.apiserver.objects import Json, look_up, name_of, namespace_of
from gpuloom.local.apiserver.statuses import invalid
from gpuloom.wire.amounts import all_containers, find_unusable
from gpuloom.wire.causes import Cause, bad_value, duplicate, forbidden_field, required

LABEL_RULE = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_RULE = rf"{LABEL_RULE}(\.{LABEL_RULE})*"
LABEL = re.compile(LABEL_RULE)
SUBDOMAIN = re.compile(SUBDOMAIN_RULE)
QUALIFIED_RULE = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
QUALIFIED = re.compile(QUALIFIED_RULE)
VALUE = re.compile(f"({QUALIFIED_RULE})?")
LONGEST_LABEL = 63
LONGEST_NAME = 253
LONGEST_ANNOTATIONS_BYTES = 256 * 1024

NOT_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN_RULE}')"
)
NOT_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL_RULE}')"
)
NOT_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED_RULE}')"
)
NOT_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({QUALIFIED_RULE})?')"
)
FIXED_POD_SPEC = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_new(kind: Kind, value: Json) -> None:
    """Refuse a new object that breaks a rule; raises ApiStatusError (422)."""
    causes = [*_metadata_causes(kind, value), *_own_causes(kind, value)]
    if causes:
        raise invalid(kind, name_of(value), causes)


def check_change(kind: Kind, before: Json, after: Json) -> None:
    """Refuse a change that breaks a rule or touches what is fixed; raises ApiStatusError (422)."""
    causes = [*_label_causes(after), *_annotation_causes(after)]
    if kind is PODS:
        causes += _gate_causes(before, after)
        if _fixed_part(before) != _fixed_part(after):
            causes.append(forbidden_field("spec", FIXED_POD_SPEC))
    if causes:
        raise invalid(kind, name_of(before), causes)


def _metadata_causes(kind: Kind, value: Json) -> Iterator[Cause]:
    name = name_of(value)
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif kind in (NAMESPACES, SERVICES):
        if len(name) > LONGEST_LABEL or not LABEL.fullmatch(name):
            yield bad_value("metadata.name", name, NOT_LABEL)
    elif len(name) > LONGEST_NAME:
        yield bad_value("metadata.name", name, "must be no more than 253 characters")
    elif not SUBDOMAIN.fullmatch(name):
        yield bad_value("metadata.name", name, NOT_SUBDOMAIN)
    yield from _label_causes(value)
    yield from _annotation_causes(value)


def _label_causes(value: Json) -> Iterator[Cause]:
    for key, text in (look_up(value, "metadata.labels") or {}).items():
        yield from _key_causes("metadata.labels", key)
        if len(text) > LONGEST_LABEL:
            yield bad_value("metadata.labels", text, "must be no more than 63 bytes")
        elif not VALUE.fullmatch(text):
            yield bad_value("metadata.labels", text, NOT_VALUE)


def _annotation_causes(value: Json) -> Iterator[Cause]:
    annotations = look_up(value, "metadata.annotations") or {}
    for key in annotations:
        yield from _key_causes("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items()) > LONGEST_ANNOTATIONS_BYTES:
        yield Cause("metadata.annotations", "FieldValueTooLong", "Too long: may not be more than 262144 bytes")


def _key_causes(field: str, key: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and not SUBDOMAIN.fullmatch(prefix):
        yield bad_value(field, key, f"prefix part {NOT_SUBDOMAIN}")
    if len(name) > LONGEST_LABEL:
        yield bad_value(field, key, "name part must be no more than 63 bytes")
    elif not QUALIFIED.fullmatch(name):
        yield bad_value(field, key, NOT_KEY)


def _own_causes(kind: Kind, value: Json) -> Iterator[Cause]:
    if kind is PODS:
        yield from _pod_causes(value)
    elif kind is EVENTS:
        about = look_up(value, "involvedObject.namespace") or ""
        if about != namespace_of(value) and (about or namespace_of(value) not in ("", "default")):
            yield bad_value("involvedObject.namespace", about, "does not match event.namespace")
    elif kind is LEASES:
        duration = look_up(value, "spec.leaseDurationSeconds")
        if duration is not None and duration <= 0:
            yield bad_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    elif kind is MUTATING_WEBHOOKS:
        yield from _webhook_causes(value)


def _pod_causes(value: Json) -> Iterator[Cause]:
    if not look_up(value, "spec.containers"):
        yield required("spec.containers")
    names: set[str] = set()
    for path, container in all_containers(value):
        name = container.get("name") or ""
        if not name:
            yield required(f"{path}.name")
        elif not LABEL.fullmatch(name) or len(name) > LONGEST_LABEL:
            yield bad_value(f"{path}.name", name, NOT_LABEL)
        if not container.get("image"):
            yield required(f"{path}.image")
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
        yield from find_unusable(path, container.get("resources") or {})


def _webhook_causes(value: Json) -> Iterator[Cause]:
    for index, webhook in enumerate(value.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        if not webhook.get("admissionReviewVersions"):
            yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
        if webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
        if not webhook.get("clientConfig"):
            yield required(f"{path}.clientConfig", "exactly one of url or service is required")
        if webhook.get("matchConditions"):
            yield forbidden_field(f"{path}.matchConditions", "the local cluster evaluates no CEL: use selectors")


def _gate_causes(before: Json, after: Json) -> Iterator[Cause]:
    """Refuse gates that are new: they may only be taken away."""
    known = look_up(before, "spec.schedulingGates") or []
    for place, gate in enumerate(look_up(after, "spec.schedulingGates") or []):
        if gate not in known:
            told = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield forbidden_field(f"spec.schedulingGates[{place}].name", told)


def _fixed_part(value: Json) -> Json:
    """Return what of a pod's spec may never change."""
    free = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
    spec = {key: member for key, member in (value.get("spec") or {}).items() if key not in free}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [{key: c[key] for key in c if key != "image"} for c in spec[field]]
    return spec
