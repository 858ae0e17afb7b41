"""Which rights the accounts of an installation need, and who lacks one. Pure."""

from collections.abc import Iterator

from gpuloom.doctor.checks import look
from gpuloom.doctor.cluster.facts import ClusterFacts, Right
from gpuloom.doctor.cluster.installation import ExtenderFlags
from gpuloom.doctor.findings import Fault, Problem

_EVENTS = (Right("create", "events"), Right("patch", "events"))
SCHEDULER_RIGHTS = (
    *(Right(verb, kind) for kind in ("pods", "nodes") for verb in ("get", "list", "watch", "patch")),
    Right("create", "pods/binding"),
    Right("list", "resourcequotas"),
    Right("watch", "resourcequotas"),
    *_EVENTS,
)
PLUGIN_RIGHTS = (
    Right("get", "nodes"),
    Right("patch", "nodes"),
    Right("get", "pods"),
    Right("list", "pods"),
    Right("patch", "pods"),
    *_EVENTS,
)


def rights_of_scheduler(flags: ExtenderFlags | None) -> tuple[Right, ...]:
    """Return what the scheduler's account must be allowed."""
    if flags is None or not flags.leader_elect:
        return SCHEDULER_RIGHTS
    place = {"group": "coordination.k8s.io", "namespace": flags.lease_namespace, "name": flags.lease_name}
    return (*SCHEDULER_RIGHTS, *(Right(verb, "leases", **place) for verb in ("list", "watch")))


def judge_rights(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which account may not do what it must."""
    lacking: dict[str, list[str]] = {}
    for answer in look(facts.rights):
        if not answer.is_allowed:
            lacking.setdefault(answer.account, []).append(str(answer.right))
    for account, rights in lacking.items():
        text = f"may not {', '.join(rights)}"
        remedy = "install the chart again, which creates its ClusterRoles and bindings, or give the account the rights"
        yield Problem(f"account {account}", text, Fault.CLUSTER, remedy)
