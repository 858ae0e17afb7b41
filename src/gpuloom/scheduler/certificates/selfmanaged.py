"""Certificates without anybody's help: a Secret that replicas share, made and renewed by whichever comes first.

Creating it meets a conflict when another replica was faster, changing it when another did so first: either way what the
other wrote is taken. The webhook configuration is watched and told whom to trust (binding 6).
"""

import asyncio
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field

import structlog

from gpuloom.kube import (
    MUTATING_WEBHOOKS,
    SECRETS,
    WRITE_DEADLINE_S,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeClient,
    NotFoundError,
)
from gpuloom.kube.backoff import Backoff
from gpuloom.kube.following import follow_object
from gpuloom.scheduler.certificates.cabundle import CaBundlePublisher
from gpuloom.scheduler.certificates.lifecycle import CertificateSet, plan
from gpuloom.scheduler.certificates.secret import LABEL, is_foreign, read_certificates, write_certificates
from gpuloom.scheduler.clocks import Clocks
from gpuloom.serving.presented import CertificateError, Presented
from gpuloom.wire.objects import Secret

PERIOD_S = 15.0
"""How often time alone is looked at; news are looked at when they come."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SelfManagedCertificates:
    """A certificate for ``hosts`` from a Secret; ``webhook`` names the configuration that is told whom to trust."""

    client: KubeClient
    clocks: Clocks
    _: KW_ONLY
    namespace: str
    name: str
    hosts: frozenset[str]
    webhook: str
    presented: Presented = field(init=False)
    _ca_bundle: CaBundlePublisher = field(init=False)
    _secret: Secret | None = None
    _certificates: CertificateSet = field(default_factory=CertificateSet)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _complaint: str = ""

    def __post_init__(self) -> None:
        self._ca_bundle = CaBundlePublisher(self.client, self.clocks, is_wanted=bool(self.webhook))

    @property
    def _source(self) -> str:
        return f"Secret {self.namespace}/{self.name}"

    async def open(self) -> None:
        """Get the first certificate, however long the API server cannot be reached.

        Raises CertificateError when it refuses, or the Secret is somebody else's.
        """
        backoff = Backoff()
        while True:
            try:
                self._secret = await self._find()
                await self._keep_secret()
                if self._certificates.served is not None:
                    self.presented = Presented(self._certificates.served, self._source)
                    return
            except (ForbiddenError, InvalidError) as error:
                raise CertificateError(f"--tls-self-manage: {error}") from error
            except ApiError as error:
                _log.warning("no certificate yet", place=self._source, cause=str(error))
                await self.clocks.sleep(backoff.delay_s())

    async def run(self) -> None:
        """Keep Secret, certificate and webhook configuration right until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_secret())
            if self.webhook:
                tasks.create_task(self._follow_configuration())
            tasks.create_task(self._reconcile())

    async def _reconcile(self) -> None:
        backoff = Backoff()
        while True:
            self._news.clear()
            delay_s = PERIOD_S
            try:
                await self._check()
            except ConflictError:
                # Somebody else was faster; the watch brings what they wrote.
                delay_s = 1.0
            except (ApiError, CertificateError) as error:
                self._complain(str(error))
                delay_s = backoff.delay_s()
            else:
                self._complaint = ""
                backoff.reset()
            await self.clocks.wait(self._news, delay_s)

    async def _check(self) -> None:
        try:
            await self._keep_secret()
        except CertificateError:
            # What is served is still to be trusted.
            await self._ca_bundle.publish(self._certificates.bundle)
            raise
        served = self._certificates.served
        if served is not None and served != self.presented.pair:
            self.presented.use(served, self._source)
            _log.info("new certificate in use", place=self._source, expires=self.presented.expires.isoformat())
        await self._ca_bundle.publish(self._certificates.bundle)

    async def _keep_secret(self) -> None:
        """Make the Secret what it should be now."""
        secret = self._secret
        if secret is not None and is_foreign(secret):
            raise CertificateError(f"{self._source} holds something else: give --tls-self-manage another name")
        # A Secret that somebody deleted or emptied is made again as it was: callers trust its authorities.
        certificates = read_certificates(secret) if secret is not None and secret.data else self._certificates
        published = self._ca_bundle.has_settled(certificates.bundle)
        planned = plan(certificates, self.hosts, self.clocks.now(), published=published)
        if secret is None:
            secret = await self._create(planned)
            planned = read_certificates(secret)
        elif planned != certificates or not secret.data:
            secret = await self._change(secret, planned)
        self._take_secret(secret)
        self._certificates = planned

    async def _find(self) -> Secret | None:
        try:
            return await self.client.get(SECRETS, self.name, namespace=self.namespace)
        except NotFoundError:
            return None

    async def _create(self, certificates: CertificateSet) -> Secret:
        data = {key: value for key, value in write_certificates(certificates).items() if value is not None}
        body = {"metadata": {"name": self.name, "labels": {LABEL: "tls"}}, "type": "kubernetes.io/tls", "data": data}
        try:
            created = await self.client.create(SECRETS, body, namespace=self.namespace, timeout_s=WRITE_DEADLINE_S)
        except AlreadyExistsError:
            return await self.client.get(SECRETS, self.name, namespace=self.namespace)
        except ForbiddenError as error:
            # The chart makes an empty Secret, so that this right is not needed.
            raise CertificateError(
                f"{self._source} is gone, and may not be made here: make it empty, to be filled, by "
                f"kubectl -n {self.namespace} create secret generic {self.name}"
            ) from error
        _log.info("certificate made", place=self._source)
        return created

    async def _change(self, secret: Secret, certificates: CertificateSet) -> Secret:
        changed = await self.client.patch(
            SECRETS,
            self.name,
            {"metadata": {"labels": {LABEL: "tls"}}, "data": write_certificates(certificates)},
            namespace=self.namespace,
            resource_version=secret.metadata.resource_version,
            timeout_s=WRITE_DEADLINE_S,
        )
        _log.info("certificate changed", place=self._source, waits_for_publication=certificates.next is not None)
        return changed

    async def _follow_secret(self) -> None:
        following = follow_object(self.client, SECRETS, self.name, namespace=self.namespace)
        async with aclosing(following) as secrets:
            async for secret in secrets:
                if secret is None:
                    self._secret = None
                else:
                    self._take_secret(secret)
                self._news.set()

    async def _follow_configuration(self) -> None:
        async with aclosing(follow_object(self.client, MUTATING_WEBHOOKS, self.webhook)) as configurations:
            async for configuration in configurations:
                self._ca_bundle.observe(configuration)
                self._news.set()

    def _take_secret(self, secret: Secret) -> None:
        """Take the Secret unless a later version of it is known."""
        if self._secret is None or secret.version >= self._secret.version:
            self._secret = secret

    def _complain(self, cause: str) -> None:
        if cause != self._complaint:
            _log.error("certificates not kept, tried again", place=self._source, cause=cause)
        self._complaint = cause
