"""Filter: from a pod and candidates to a decision (scheduler 4.2 to 4.8)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuloom.wire.objects import Node, Pod
from oracle.answer import FAILED, WARNING, Answer, Event, refusal_events, success_event
from oracle.demand import generate_pod_requests
from oracle.device import NodeUsage, idle_usage
from oracle.fit import Question, UnfitError
from oracle.nodefit import NodeFit, fit_node
from oracle.order import card_policy, is_numa_bound, node_policy, sort_nodes
from oracle.records import Cluster, RegisteredNode, Request, container_kinds
from oracle.registration import RegistrationError, read_cards
from oracle.scores import Weights, WeightsError, read_weights
from oracle.settings import Settings
from oracle.usage import group_by_node, node_usage

UNREGISTERED = "node unregistered"

Candidate = tuple[RegisteredNode, NodeUsage]


def filter_pod(cluster: Cluster, pod: Pod, node_names: Sequence[str], settings: Settings) -> Answer:
    """Decide where a pod goes, among nodes that are known by name (4.2)."""
    requests = generate_pod_requests(pod, settings)
    if not any(requests):  # step 1
        return _without_request(settings)
    others = cluster.without(pod.metadata.uid)  # step 3
    known = [name for name in dict.fromkeys(node_names) if name in others.nodes]
    pods_by_node = group_by_node(others.pods.values())
    candidates = {
        name: (others.nodes[name], node_usage(others.nodes[name].cards, pods_by_node.get(name, ()), settings))
        for name in known
    }  # step 4
    failed = {name: UNREGISTERED for name in node_names if name not in others.nodes}
    try:
        weights = read_weights(pod.annotations)  # step 5
    except WeightsError as error:
        return _without_scores(pod, error)
    fits = fit_candidates(candidates, others, pod, requests, weights, settings)  # step 6
    return _decide(fits, failed, len(node_names), pod, settings)


def simulate(cluster: Cluster, pod: Pod, nodes: Iterable[Node], settings: Settings) -> Answer:
    """Decide where a pod would go, among idle nodes that are given as objects (4.8)."""
    requests = generate_pod_requests(pod, settings)
    if not any(requests):
        return Answer(requested=False)
    candidates: dict[str, Candidate] = {}
    failed: dict[str, str] = {}
    for node in nodes:
        try:
            registered = RegisteredNode(read_cards(node.annotations), node)
            candidates[node.name] = registered, idle_usage(registered.cards)
        except RegistrationError:
            failed[node.name] = UNREGISTERED
    try:
        weights = read_weights(pod.annotations)
    except WeightsError as error:
        return Answer(error=f"calcScore failed {error} for pod {pod.name}")
    idle = replace(cluster, closed={})
    fits = fit_candidates(candidates, idle, pod, requests, weights, settings)
    answer = _decide(fits, failed, len(candidates) + len(failed), pod, settings)
    return replace(answer, events=())


def fit_candidates(
    candidates: dict[str, Candidate],
    cluster: Cluster,
    pod: Pod,
    requests: Sequence[Request | None],
    weights: Weights,
    settings: Settings,
) -> dict[str, NodeFit | str]:
    """Place the pod on every candidate: the fit, or the reason text (4.4)."""
    outcome: dict[str, NodeFit | str] = {}
    for name, (node, usage) in candidates.items():
        question = Question(
            pod=pod,
            kinds=container_kinds(pod),
            position=0,
            earlier=(),
            policy=card_policy(pod.annotations, settings),
            numa_bind=is_numa_bound(pod.annotations),
            node=node,
            cluster=cluster,
            settings=settings,
        )
        try:
            outcome[name] = fit_node(usage, requests, question, weights)
        except UnfitError as error:
            outcome[name] = str(error)
    return outcome


def _decide(
    outcome: dict[str, NodeFit | str], failed: dict[str, str], total: int, pod: Pod, settings: Settings
) -> Answer:
    fits = {name: fit for name, fit in outcome.items() if isinstance(fit, NodeFit)}
    unfit = {name: reason for name, reason in outcome.items() if isinstance(reason, str)}
    failed = failed | unfit
    if not fits:  # step 7
        return Answer(failed=failed, unfit=frozenset(unfit), events=refusal_events(total, failed))
    policy = node_policy(pod.annotations, settings)
    scores = dict(sort_nodes({name: fit.score for name, fit in fits.items()}, policy))  # step 8
    best = list(scores)[-1]
    return Answer(
        node=best,
        devices=tuple(tuple(container) for container in fits[best].devices),
        mig_allocations=tuple(fits[best].mig_allocations),
        scores=scores,
        failed=failed,
        unfit=frozenset(unfit),
        events=(success_event(total, scores),),
    )


def _without_request(settings: Settings) -> Answer:
    text = "does not request any resource"
    events = (Event(WARNING, FAILED, text),) if settings.no_request_event else ()
    return Answer(requested=False, events=events)


def _without_scores(pod: Pod, error: WeightsError) -> Answer:
    text = f"calcScore failed {error} for pod {pod.name}"
    return Answer(error=text, events=(Event(WARNING, FAILED, text),))
