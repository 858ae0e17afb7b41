"""Which rights the accounts of an installation need, and who lacks one. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from gpuloom.doctor.checks import require
from gpuloom.doctor.cluster.facts import ClusterFacts, Right
from gpuloom.doctor.cluster.installation import ExtenderFlags
from gpuloom.doctor.findings import Fault, Problem

_EVENTS = (Right("create", "events"), Right("patch", "events"))
SCHEDULER_RIGHTS = (
    *(Right(verb, kind) for kind in ("pods", "nodes") for verb in ("get", "list", "watch", "patch")),
    Right("create", "pods/binding"),
    Right("patch", "pods/status"),
    Right("list", "resourcequotas"),
    Right("watch", "resourcequotas"),
    *_EVENTS,
)
PLUGIN_RIGHTS = (
    Right("get", "nodes"),
    Right("patch", "nodes"),
    Right("get", "pods"),
    Right("list", "pods"),
    Right("watch", "pods"),
    Right("patch", "pods"),
    *_EVENTS,
)


_QUESTIONS = (
    Right("create", "tokenreviews", "authentication.k8s.io"),
    Right("create", "subjectaccessreviews", "authorization.k8s.io"),
)


def rights_of_scheduler(flags: ExtenderFlags | None, namespace: str) -> tuple[Right, ...]:
    """Return what the account of a scheduler in this namespace must be allowed."""
    rights = [*SCHEDULER_RIGHTS]
    if flags is not None and flags.leader_elect:
        lease = Right("list", "leases", "coordination.k8s.io", flags.lease_namespace, flags.lease_name)
        names = {flags.lease_name, *(name.strip() for name in flags.rival_names.split(","))} - {""}
        leases = [lease, *(replace(lease, namespace="", name=name) for name in sorted(names))]
        rights += [replace(one, verb=verb) for one in leases for verb in ("list", "watch")]
    if flags is not None and flags.tls_secret:
        place, _, name = flags.tls_secret.rpartition("/")
        # Not the right to create one: the chart makes an empty Secret.
        verbs = ("get", "list", "watch", "patch")
        rights += [Right(verb, "secrets", namespace=place or namespace, name=name) for verb in verbs]
    if flags is not None and flags.tls_webhook:
        kind, group = "mutatingwebhookconfigurations", "admissionregistration.k8s.io"
        rights += [Right(verb, kind, group, name=flags.tls_webhook) for verb in ("list", "watch", "patch")]
    return (*rights, *(_list_optional(flags) if flags is not None else ()))


def _list_optional(flags: ExtenderFlags) -> Iterator[Right]:
    """Give what is needed only where it was switched on."""
    if flags.preempts or flags.moves_pods:
        yield Right("create", "pods/eviction")
        yield Right("list", "poddisruptionbudgets", "policy")
    if flags.preempts:
        yield Right("watch", "poddisruptionbudgets", "policy")
    if flags.preempts and flags.breaks_budgets:
        yield Right("delete", "pods")
    if flags.asks_for_tokens:
        yield from _QUESTIONS


def judge_rights(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which account may not do what it must."""
    lacking: dict[str, list[str]] = {}
    for answer in require(facts.rights):
        if not answer.is_allowed:
            lacking.setdefault(answer.account, []).append(str(answer.right))
    for account, rights in lacking.items():
        text = f"may not {', '.join(rights)}"
        remedy = "install the chart again, which creates its ClusterRoles and bindings, or give the account the rights"
        yield Problem(f"account {account}", text, Fault.CLUSTER, remedy)
