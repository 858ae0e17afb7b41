"""Creating, changing and deleting objects: the rules between a request and the store.

From reading the current version to writing the next one nothing is awaited, so that no other write comes between.
Only admission, before an object exists, waits for others.
"""

import datetime as dt
import secrets
import uuid
from collections.abc import Callable

from gpuloom.local.apiserver.admission import Admission, ignore_warning
from gpuloom.local.apiserver.defaults import complete_update, fill_new, first_status
from gpuloom.local.apiserver.deletion import Deleter
from gpuloom.local.apiserver.kinds import NAMESPACES, PODS, Kind
from gpuloom.local.apiserver.objects import (
    SYSTEM_FIELDS,
    Json,
    format_time,
    look_up,
    name_of,
    namespace_of,
    with_metadata,
    without_nulls,
)
from gpuloom.local.apiserver.quotas import Quotas
from gpuloom.local.apiserver.requests import Target, check_kind, check_shape
from gpuloom.local.apiserver.statuses import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    unreadable,
)
from gpuloom.local.apiserver.store import Record, Store
from gpuloom.local.apiserver.validation import check_change, check_new
from gpuloom.wire.amounts import NOT_QUANTITY
from gpuloom.wire.causes import bad_value
from gpuloom.wire.errors import WireError

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
LONGEST_GENERATED_BASE = 58


class Writer:
    """All writes of one server."""

    def __init__(self, store: Store, admission: Admission, quotas: Quotas, clock: Callable[[], dt.datetime]) -> None:
        self.store = store
        self.deleter = Deleter(store, clock)
        self._admission = admission
        self._quotas = quotas
        self._clock = clock

    def now(self) -> str:
        """Return the present as Kubernetes writes it."""
        return format_time(self._clock())

    def get(self, target: Target) -> Record:
        """Return the object that a path names; raises ApiStatusError (404)."""
        record = self.store.get(target.kind, target.namespace, target.name)
        if record is None:
            raise not_found(target.kind, target.name)
        return record

    async def create(self, kind: Kind, value: Json, warn: Callable[[str], None] = ignore_warning) -> Record:
        """Add an object: defaults, webhooks, rules, quota; ``warn`` gets what webhooks warn of.

        Raises ApiStatusError: 400, 403 (denied, over quota), 404 (no such namespace), 409, 422, 500 (webhook failed).
        """
        value = without_nulls(value)
        value["metadata"].pop("resourceVersion", None)
        for field in SYSTEM_FIELDS:
            value["metadata"].pop(field, None)
        self._check_namespace(value)
        _fill(kind, value)
        admitted = await self._admission.mutate(kind, value, warn)
        if admitted is not value:
            check_shape(admitted, kind)
            _fill(kind, admitted)
        return self.insert(kind, admitted)

    def insert(self, kind: Kind, value: Json) -> Record:
        """Add an object that admission has passed; raises ApiStatusError as :meth:`create` does."""
        value = self._named(kind, value)
        check_new(kind, value)
        self._check_namespace(value)
        if self.store.get(kind, namespace_of(value), name_of(value)) is not None:
            raise already_exists(kind, name_of(value))
        if kind is PODS:
            self._quotas.check(value)
        value = with_metadata(value, uid=str(uuid.uuid4()), creationTimestamp=self.now())
        return self.store.create(kind, first_status(kind, value))

    def change(self, target: Target, edit: Callable[[Json], Json]) -> Record:
        """Write what ``edit`` makes of the current object; raises ApiStatusError (404, 409, 422 and what edit raises).

        A ``resourceVersion`` in the result is a precondition. Through ``status`` only the status and the metadata
        change, otherwise everything but the status does.
        """
        before = self.get(target)
        after = edit(before.full())
        self._check_identity(before, after)
        version = after["metadata"].get("resourceVersion")
        if not version and target.kind.needs_version_to_update:
            cause = bad_value("metadata.resourceVersion", "", "must be specified for an update")
            raise invalid(target.kind, target.name, [cause])
        if version and version != str(before.revision):
            raise conflict(target.kind, target.name)
        after = _kept(before, after, target.subresource)
        check_shape(after, target.kind)
        after = _complete(target.kind, before.value, after)
        check_change(target.kind, before.value, after)
        return self.deleter.finish_if_released(self.store.replace(before, after))

    def _named(self, kind: Kind, value: Json) -> Json:
        base = look_up(value, "metadata.generateName")
        if name_of(value) or not base:
            return value
        suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
        named = with_metadata(value, name=base[:LONGEST_GENERATED_BASE] + suffix)
        if kind is NAMESPACES:
            _fill(kind, named)
        return named

    def _check_namespace(self, value: Json) -> None:
        name = namespace_of(value)
        if not name:
            return
        namespace = self.store.get(NAMESPACES, "", name)
        if namespace is None:
            raise not_found(NAMESPACES, name)
        if namespace.value["metadata"].get("deletionTimestamp"):
            raise forbidden(NAMESPACES, name, f"unable to create new content in namespace {name}: being terminated")

    def _check_identity(self, before: Record, after: Json) -> None:
        kind = before.kind
        check_kind(after, kind.kind, kind.api_version)
        if name_of(after) != before.name:
            raise bad_request(
                f"the name of the object ({name_of(after)}) does not match the name on the URL ({before.name})"
            )
        if namespace_of(after) not in ("", before.namespace):
            raise bad_request(
                f"the namespace of the object ({namespace_of(after)}) does not match the namespace on the request "
                f"({before.namespace})"
            )
        uid = after["metadata"].get("uid")
        if uid and uid != before.value["metadata"]["uid"]:
            raise invalid(kind, before.name, [bad_value("metadata.uid", uid, "field is immutable")])


def _fill(kind: Kind, value: Json) -> None:
    try:
        fill_new(kind, value)
    except WireError as error:
        raise unreadable(kind, NOT_QUANTITY) from error


def _complete(kind: Kind, before: Json, value: Json) -> Json:
    try:
        return complete_update(kind, before, value)
    except WireError as error:
        raise unreadable(kind, NOT_QUANTITY) from error


def _kept(before: Record, after: Json, subresource: str) -> Json:
    """Return the new object with what this path may not write taken from the old one."""
    old = before.value
    system = {field: old["metadata"].get(field) for field in (*SYSTEM_FIELDS, "namespace")}
    after = with_metadata(after, **system)
    if subresource:
        kept = {key: member for key, member in old.items() if key != "status"}
        return {**kept, "metadata": after["metadata"], "status": after.get("status") or {}}
    if not before.kind.has_status:
        return after
    after = {key: member for key, member in after.items() if key != "status"}
    return {**after, "status": old["status"]} if "status" in old else after
