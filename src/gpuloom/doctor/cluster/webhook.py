"""Judges the webhook: is it installed, does the API server believe it, does it answer. Pure."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from cryptography import x509

from gpuloom.doctor.checks import UnseenError, require
from gpuloom.doctor.cluster.facts import ClusterFacts, FoundWebhook, Trust
from gpuloom.doctor.findings import Fault, Problem, Severity

_SOON = timedelta(days=7)
_MISTRUST = ("x509", "certificate", "tls:")
_CA_REMEDY = (
    "with --tls-self-manage restart the scheduler, which writes caBundle itself, and see check rights; with "
    "cert-manager look at its Certificate and the annotation cert-manager.io/inject-ca-from"
)
_ROUTE_REMEDY = (
    "see check scheduler; let the API server's machines reach the Service and its pods (network policies, firewalls, "
    "private nodes)"
)


def judge_webhook(facts: ClusterFacts) -> Iterator[Problem]:
    """Say why the API server asks nobody about new pods, or several."""
    found = require(facts.webhooks)
    if not found:
        yield _complain_of_none(facts)
    if len(found) > 1:
        names = ", ".join(one.configuration for one in found)
        text = f"{len(found)} of them change the same pods: {names}"
        yield Problem("webhook", text, Fault.INSTALLATION, "remove those of installations that are no more")
    for one in found:
        rules = one.webhook.rules or []
        if not any("CREATE" in (rule.operations or ()) and "pods" in (rule.resources or ()) for rule in rules):
            text = "is not asked about new pods"
            yield Problem(_name(one), text, Fault.INSTALLATION, "give it the rule CREATE of pods, as the chart does")


def _complain_of_none(facts: ClusterFacts) -> Problem:
    missing = "no MutatingWebhookConfiguration has gpuloom's webhook"
    install = "install the chart with scheduler.admissionWebhook.enabled=true"
    if facts.flags is not None and not facts.flags.expects_webhook:
        text = f"{missing}, as the scheduler was told: pods with cards come to it by its name alone"
        remedy = f"write schedulerName: {facts.scheduler_name} into every pod with cards, or {install}"
        return Problem("webhook", text, Fault.INSTALLATION, remedy, Severity.NOTE)
    text = f"{missing}, so pods with cards go to other schedulers"
    return Problem("webhook", text, Fault.INSTALLATION, f"{install}, or name the scheduler in every pod")


def judge_webhook_ca(facts: ClusterFacts) -> Iterator[Problem]:
    """Say why the API server would not believe who answers."""
    for one in _find(facts):
        problem = _judge_bundle(one, facts.now)
        if problem is not None:
            yield problem
        elif one.meeting.trust is Trust.REFUSED:
            text = f"its caBundle does not sign the certificate that is presented: {one.meeting.text}"
            yield Problem(_name(one), text, Fault.INSTALLATION, _CA_REMEDY)


def judge_webhook_answers(facts: ClusterFacts) -> Iterator[Problem]:
    """Say why a pod that is created with a card does not come to gpuloom; told by a dry run."""
    found = _find(facts)
    probe, name = require(facts.probe), _name(found[0])
    if probe.refusal:
        is_mistrust = any(word in probe.refusal for word in _MISTRUST)
        text = f"the API server cannot ask it: {probe.refusal}"
        yield Problem(
            name,
            text,
            Fault.INSTALLATION if is_mistrust else Fault.CLUSTER,
            _CA_REMEDY if is_mistrust else _ROUTE_REMEDY,
        )
    elif probe.scheduler_name != facts.scheduler_name:
        if probe.scheduler_name and facts.flags and not facts.flags.overwrites_default:
            raise UnseenError(
                "the webhook leaves pods alone that name no scheduler (--force-overwrite-default-scheduler=false), so "
                "that of a dry run does not tell whether it answers"
            )
        yield Problem(
            name,
            f"a pod with a card was left to {probe.scheduler_name or 'the default scheduler'}: the API server did not "
            f"ask, or got no answer and went on{_tell_meeting(found)}",
            Fault.CLUSTER,
            "see check webhook-ca, and look for 'failed calling webhook' in the API server's log; a label "
            f"hami.io/webhook=ignore on the namespace does the same; {_ROUTE_REMEDY}",
        )


def _find(facts: ClusterFacts) -> Sequence[FoundWebhook]:
    found = require(facts.webhooks)
    if not found:
        raise UnseenError("there is no webhook, see check webhook")
    return found


def _judge_bundle(found: FoundWebhook, now: datetime) -> Problem | None:
    name, bundle = _name(found), found.webhook.client_config.ca_bundle
    if not bundle:
        if found.webhook.client_config.url:
            return None  # The system's authorities may do.
        text = "it has no caBundle, so the API server believes nobody"
        return Problem(name, text, Fault.INSTALLATION, _CA_REMEDY)
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, binascii.Error) as error:
        return Problem(name, f"its caBundle holds no certificate: {error}", Fault.INSTALLATION, _CA_REMEDY)
    ends = max(certificate.not_valid_after_utc for certificate in certificates)
    if ends <= now:
        text = f"its caBundle is not valid since {ends:%Y-%m-%d %H:%M}"
        return Problem(name, text, Fault.INSTALLATION, _CA_REMEDY)
    if ends - now < _SOON:
        text = f"its caBundle is not valid any more from {ends:%Y-%m-%d %H:%M} on"
        return Problem(name, text, Fault.INSTALLATION, _CA_REMEDY, Severity.WARNING)
    return None


def _tell_meeting(found: Sequence[FoundWebhook]) -> str:
    texts = [one.meeting.text for one in found if one.meeting.trust is Trust.REFUSED]
    return f" ({texts[0]})" if texts else ""


def _name(found: FoundWebhook) -> str:
    return f"webhook {found.webhook.name} of {found.configuration}"
