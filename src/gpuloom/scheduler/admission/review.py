"""The mutating webhook: which pods are ours, and what is changed on them (scheduler 2).

Everything here is computed from the review and from what is known of the cluster; the answer is a value. What is
removed or added is said as a JSON Patch against the object as it was sent, so that fields which gpuloom does not know
survive.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from gpuloom.engine.request.demand import read_container_types
from gpuloom.engine.state.quotas import Exceeded
from gpuloom.model.request_columns import Headroom
from gpuloom.scheduler.admission.patch import ContainerPatch, PodPatch
from gpuloom.scheduler.admission.quota import find_exceeded_by
from gpuloom.scheduler.admission.warn import Cluster, find_warnings
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.changes import FactsOf, Switches, know_no_node
from gpuloom.vendors.hooks import complete_container, read_request
from gpuloom.vendors.owned import OwnedAnnotations
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.requests import find_amount, find_quantity
from gpuloom.wire.admission import Review, Verdict, decode_pod
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import OWNED_POD_LABELS
from gpuloom.wire.objects import Container, Pod, Quantity, Resources
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.words import INT32_MAX, INT32_MIN

DEFAULT_SCHEDULER = "default-scheduler"
MOST_ASKING = 100
"""Containers of one pod that ask for devices: each of them costs the event loop time (trust T-02)."""

IGNORED_LABEL = ("hami.io/webhook", "ignore")
"""Pods with this label are none of the webhook's business; the API server does not even ask (wire protocol 3.6)."""


EXCEEDED = "exceeding resource quota"


class DeniedError(Exception):
    """The user's pod cannot be served as it is; the message says what is wrong with it."""


class _QuotaExceededError(DeniedError):
    """The pod asks for more than its namespace may still take. HAMi says only that, to whoever asks."""

    def __init__(self, exceeded: Exceeded) -> None:
        super().__init__(EXCEEDED)
        self.exceeded = exceeded


Headrooms = Callable[[str, Profile], Headroom]
"""What the quotas of a namespace still allow of a vendor's cards."""


def _unlimited(_namespace: str, _profile: Profile) -> Headroom:
    return Headroom()


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the cluster.

    headroom  what the quotas of a namespace still allow of a vendor's cards
    facts_of  what nodes say of all their cards of a vendor
    """

    headroom: Headrooms = _unlimited
    facts_of: FactsOf = know_no_node


NOTHING_KNOWN = Known()


def review_pod(review: Review, settings: SchedulerSettings, known: Known = NOTHING_KNOWN) -> Verdict:
    """Answer a review of a pod that is to be created: allowed as it is, allowed with changes, or denied and why."""
    try:
        pod = decode_pod(review.pod)
    except WireError as error:
        return Verdict(allowed=False, code=400, message=str(error))
    try:
        return _complete(pod, PodPatch(pod), review.namespace, settings, known)
    except DeniedError as error:
        return Verdict(allowed=False, code=403, reason="Forbidden", message=str(error))
    except WireError as error:
        return Verdict(allowed=False, code=500, message=str(error))


def add_amounts(review: Review, verdict: Verdict, settings: SchedulerSettings, known: Known) -> Verdict:
    """Add to a denial for quota what is asked for and what is left.

    Only where callers show a certificate: the API server passes it on to whoever may create pods in the namespace, who
    learns as much from Kubernetes' own quotas. Others learn nothing of a namespace's quota.
    """
    if verdict.message != EXCEEDED or not settings.webhook_client_ca:
        return verdict
    try:
        pod = decode_pod(review.pod)
        _complete(pod, PodPatch(pod), review.namespace, settings, known)
    except _QuotaExceededError as error:
        return replace(verdict, message=f"{EXCEEDED}: {error.exceeded}")
    except (DeniedError, WireError):
        pass
    return verdict


def add_warnings(review: Review, verdict: Verdict, settings: SchedulerSettings, cluster: Cluster) -> Verdict:
    """Add what is doubtful about a pod that is allowed."""
    if not verdict.allowed:
        return verdict
    try:
        pod = decode_pod(review.pod)
    except WireError:
        return verdict
    if belongs_to_another_scheduler(pod, settings):
        return verdict
    return replace(verdict, warnings=find_warnings(_fill_in(pod, settings), settings, cluster))


def _fill_in(pod: Pod, settings: SchedulerSettings) -> Pod:
    """Return a pod with the amounts that the webhook adds; those that somebody wrote stay as written."""
    try:
        completed, _ = _complete_containers(pod, PodPatch(pod), settings, NOTHING_KNOWN)
    except WireError:
        return pod
    if not completed:
        return pod
    filled = list(pod.all_containers)
    for position, container in completed.items():
        written = filled[position]
        resources = Resources({**container.limits, **written.limits}, {**container.requests, **written.requests})
        filled[position] = msgspec.structs.replace(written, resources=resources)
    first = len(pod.init_containers)
    spec = msgspec.structs.replace(pod.spec, init_containers=filled[:first], containers=filled[first:])
    return msgspec.structs.replace(pod, spec=spec)


def needs_completion(pod: Pod, settings: SchedulerSettings) -> bool:
    """Tell whether the webhook would still change a stored pod, which means that it was not asked about the pod.

    Environment variables do not count, because the webhook adds them every time. Nor does the spelling of an amount.
    """
    if pod.labels.get(IGNORED_LABEL[0]) == IGNORED_LABEL[1]:
        return False
    try:
        verdict = _complete(pod, PodPatch(pod, respells=False), pod.namespace, settings, NOTHING_KNOWN)
    except (DeniedError, WireError):
        return False
    return any("env" not in operation["path"].split("/") for operation in verdict.patch)


def _complete(pod: Pod, patch: PodPatch, namespace: str, settings: SchedulerSettings, known: Known) -> Verdict:
    """Walk the decision table (scheduler 2.1) from the top."""
    if settings.strip_owned_keys:
        _strip_owned_keys(pod, patch, settings.owned_annotations)
    if not pod.containers:
        raise DeniedError("pod has no containers")
    if belongs_to_another_scheduler(pod, settings):
        return Verdict(allowed=True, message="pod already has different scheduler assigned", patch=patch.operations)
    _check_asking(pod.all_containers, settings)
    completed, asks = _complete_containers(pod, patch, settings, known)
    if settings.strict_quantities:
        for container in completed.values():
            _check_requests(container, patch.annotations, settings)
    if asks:
        _claim(pod, patch, settings)
    if settings.admission_quota and (
        exceeded := find_exceeded_by(
            [completed.get(position, container) for position, container in enumerate(pod.all_containers)],
            read_container_types(pod),
            patch.annotations,
            settings.catalog,
            lambda profile: known.headroom(pod.namespace or namespace, profile),
        )
    ):
        raise _QuotaExceededError(exceeded)
    return Verdict(allowed=True, patch=patch.operations)


def _complete_containers(
    pod: Pod, patch: PodPatch, settings: SchedulerSettings, known: Known
) -> tuple[dict[int, Container], bool]:
    """Complete the containers that name a vendor's resource; return them by position, and whether one asks for cards.

    Raises WireError, our answer is an error then.
    """
    completed, asks = dict[int, Container](), False
    switches = Switches(settings.exclusive_cores, settings.mlu_default_cores, known.facts_of)
    for position, container in enumerate(pod.all_containers):
        # Most containers ask no vendor for anything: they must cost next to nothing.
        profiles = settings.catalog.changing(container)
        if profiles and (settings.privileged_gpu == "deny" or not container.privileged):
            change = patch.container_at(position)
            asks |= _mutate(pod, container, change, profiles, switches)
            completed[position] = change.changed
    return completed, asks


def _check_asking(containers: Sequence[Container], settings: SchedulerSettings) -> None:
    if len(containers) <= MOST_ASKING:
        return
    asking = sum(1 for one in containers if settings.catalog.concerned((one,)))
    if asking > MOST_ASKING:
        raise DeniedError(
            f"pod has {asking} containers that ask for devices, at most {MOST_ASKING} are taken by gpuloom's webhook: "
            "split the pod"
        )


def _claim(pod: Pod, patch: PodPatch, settings: SchedulerSettings) -> None:
    """Name our scheduler in a pod that asks for cards; ``privileged-gpu=deny`` denies privileged ones (D-02)."""
    privileged = [container.name for container in pod.all_containers if container.privileged]
    if privileged and settings.privileged_gpu == "deny":
        raise DeniedError(f"container {privileged[0]} is privileged")
    if settings.scheduler_name:
        if pod.spec.node_name:
            raise DeniedError("pod has node assigned")
        patch.set_scheduler(settings.scheduler_name)


def _strip_owned_keys(pod: Pod, patch: PodPatch, owned: OwnedAnnotations) -> None:
    """Remove what only gpuloom may write: templates copied from running pods keep working (binding 6)."""
    for key in pod.annotations:
        if key in owned:
            patch.remove("metadata", "annotations", key)
    for key in OWNED_POD_LABELS & pod.labels.keys():
        patch.remove("metadata", "labels", key)


def belongs_to_another_scheduler(pod: Pod, settings: SchedulerSettings) -> bool:
    """Tell whether a pod names a scheduler that is not ours, and that the webhook leaves it to."""
    named, ours = pod.spec.scheduler_name, settings.scheduler_name
    if not named or (named == DEFAULT_SCHEDULER and settings.force_overwrite_default_scheduler):
        return False
    return not ours or named != ours


def _mutate(
    pod: Pod, container: Container, patch: ContainerPatch, profiles: Iterable[Profile], switches: Switches
) -> bool:
    """Complete one container for every vendor that may change it; tell whether it asks for cards (scheduler 2.2)."""
    asked = [complete_container(container, pod, patch, profile, switches) for profile in profiles]
    return any(asked)


def _check_requests(container: Container, annotations: Mapping[str, str], settings: SchedulerSettings) -> None:
    """Deny amounts that nobody could serve, instead of letting the pod pass as one without cards (scheduler 2.3, D-20).

    The container is as it will be: an amount that was replaced by one that can be served does no harm.
    """
    for profile in settings.catalog.concerned((container,)):
        if profile.request.reader:
            _check_request(container, annotations, profile)
        else:
            _check_amounts(container, profile)


def _check_request(container: Container, annotations: Mapping[str, str], profile: Profile) -> None:
    """Deny a request that this family's own rules cannot read, naming the amount that is to blame."""
    names = profile.resources
    amounts = {name: quantity for name in names.all if (quantity := find_amount(container, name, profile)) is not None}
    odd = [name for name, quantity in amounts.items() if not _is_amount(quantity)]
    if names.count in amounts:
        asks = (decode_strict_integer(amounts[names.count]) or 0) > 0
    else:
        asks = bool(odd) and profile.request.recognize == "limits-or-requests"
    if not asks or read_request(container, annotations, profile) is not None:
        return
    name = (odd or [name for name in amounts if name != names.count] or [names.count])[0]
    raise DeniedError(f"invalid {name} value {amounts[name]} in container {container.name}: nobody could serve it")


def _is_amount(quantity: Quantity) -> bool:
    value = decode_strict_integer(quantity)
    return value is not None and 0 <= value <= INT32_MAX


def _check_amounts(container: Container, profile: Profile) -> None:
    """Deny amounts that nobody could serve, instead of letting the pod pass as one without cards (scheduler 2.3, D-20).

    Where the count of cards cannot be read, the container asks for none, whatever else it names.
    """
    names, request = profile.resources, profile.request
    count = find_quantity(container, names.count)
    if count is not None and decode_strict_integer(count) is None:
        return
    _check_amount(container, names.count, "cards", least=INT32_MIN)
    _check_amount(container, names.memory, "MiB", most=INT32_MAX // max(request.memory_factor, 1))
    _check_amount(container, names.cores, "per cent of a card", forgives=request.forgives_cores)


def _check_amount(
    container: Container, name: str, unit: str, *, least: int = 0, most: int = INT32_MAX, forgives: bool = False
) -> None:
    """Deny an amount that is not within limits, or no number unless that is forgiven."""
    quantity = find_quantity(container, name)
    if quantity is None:
        return
    value = decode_strict_integer(quantity)
    if not (forgives if value is None else least <= value <= most):
        raise DeniedError(
            f"invalid {name} value {quantity} in container {container.name}: "
            f"must be a non-negative integer number of {unit}"
        )
