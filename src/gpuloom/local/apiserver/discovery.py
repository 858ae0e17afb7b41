"""What the server says about itself: groups, resources, version, and the smallest OpenAPI document kubectl accepts.

Objects are not described field by field: clients get no client-side validation from it, and need none.
"""

from collections.abc import Iterator

from gpuloom.local.apiserver.kinds import KINDS, Kind
from gpuloom.local.apiserver.objects import Json

VERSION: Json = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2+gpuloom",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json")
"""Strategic patches are left out: kubectl would compute them from schemas that are not here instead of its own."""


def describe(path: str, address: str) -> Json | None:
    """Return the document at a discovery path, None if there is none; ``address`` is the server's host and port."""
    match [part for part in path.split("/") if part]:
        case ["version"]:
            return VERSION
        case ["api", *rest]:
            return _resources("", rest[0]) if len(rest) == 1 else None if rest else _core(address)
        case ["apis", *rest]:
            return _named_groups(rest)
        case ["openapi", *rest]:
            return _openapi(rest)
    return None


def _core(address: str) -> Json:
    clients = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": clients}


def _named_groups(rest: list[str]) -> Json | None:
    match rest:
        case []:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _groups()]}
        case [group] if group in _groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}
        case [group, version]:
            return _resources(group, version)
    return None


def _groups() -> list[str]:
    return list(dict.fromkeys(kind.group for kind in KINDS if kind.group))


def _group(name: str) -> Json:
    versions = dict.fromkeys(kind.version for kind in KINDS if kind.group == name)
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(group: str, version: str) -> Json | None:
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    if not kinds:
        return None
    resources = [entry for kind in kinds for entry in _entries(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": resources,
    }


def _entries(kind: Kind) -> Iterator[Json]:
    entry: Json = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    yield entry
    for subresource in kind.subresources:
        below: Json = {
            "name": f"{kind.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": subresource.kind,
            "verbs": list(subresource.verbs),
        }
        if subresource.group:
            below |= {"group": subresource.group, "version": subresource.version}
        yield below


def _openapi(rest: list[str]) -> Json | None:
    info = {"title": "gpuloom local cluster", "version": VERSION["gitVersion"]}
    match rest:
        case ["v2"]:
            return {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}
        case ["v3"]:
            served = dict.fromkeys(f"apis/{kind.api_version}" if kind.group else "api/v1" for kind in KINDS)
            return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in served}}
        case ["v3", *path]:
            prefix = "/" + "/".join(path) + "/"
            kinds = [kind for kind in KINDS if _path(kind).startswith(prefix)]
            paths = {_path(kind): {"patch": _patch_operation(kind)} for kind in kinds}
            schemas = {_schema_name(kind): _schema(kind) for kind in kinds}
            return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
    return None


def _path(kind: Kind) -> str:
    root = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}{scope}/{kind.plural}/{{name}}"


def _gvk(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schema_name(kind: Kind) -> str:
    return f"io.k8s.{kind.group or 'core'}.{kind.version}.{kind.kind}"


def _schema(kind: Kind) -> Json:
    return {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": [_gvk(kind)],
    }


def _patch_operation(kind: Kind) -> Json:
    """Describe PATCH, where kubectl looks up which parameters a server understands."""
    text = {"schema": {"type": "string"}}
    return {
        "operationId": f"patch{kind.kind}",
        "parameters": [{"name": name, "in": "query", **text} for name in ("fieldManager", "fieldValidation")],
        "requestBody": {"content": {one: {"schema": {"type": "object"}} for one in PATCH_TYPES}},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
