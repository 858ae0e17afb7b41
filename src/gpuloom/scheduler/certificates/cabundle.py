"""Telling the API server whom to trust: the ``caBundle`` of the scheduler's webhook configuration (binding 6)."""

import base64

import structlog

from gpuloom.kube import MUTATING_WEBHOOKS, WRITE_DEADLINE_S, KubeClient, NotFoundError
from gpuloom.scheduler.clocks import Clocks
from gpuloom.wire.objects import WebhookConfiguration

SETTLING_S = 30.0
"""So long after it is seen in the configuration, every API server of a cluster knows a bundle."""

_log = structlog.get_logger(__name__)


class CaBundlePublisher:
    """Keeps the bundle of one webhook configuration right. Where none is wanted, everything counts as published."""

    def __init__(self, client: KubeClient, clocks: Clocks, *, is_wanted: bool) -> None:
        self._client = client
        self._clocks = clocks
        self._is_wanted = is_wanted
        self._is_known = False
        self._configuration: WebhookConfiguration | None = None
        self._shown = ""
        self._shown_since = 0.0

    def observe(self, configuration: WebhookConfiguration | None) -> None:
        """Take the configuration as the watch shows it, None when there is none."""
        if configuration is None:
            _log.warning("the webhook configuration is not there: nobody is told whom to trust")
        self._is_known = True
        self._configuration = configuration
        self._note()

    def has_settled(self, bundle: bytes) -> bool:
        """Whether every API server trusts this bundle by now."""
        if not self._is_wanted or (self._is_known and self._configuration is None):
            return True
        return self._shown == _encode(bundle) and self._clocks.monotonic() - self._shown_since >= SETTLING_S

    async def publish(self, bundle: bytes) -> None:
        """Write the bundle where it is not yet; of the configuration nothing else is changed.

        Raises ApiError.
        """
        if self._configuration is None:
            return
        text = _encode(bundle)
        wrong = [one.name for one in self._configuration.webhooks or () if one.client_config.ca_bundle != text]
        if not wrong:
            return
        changes = [{"name": name, "clientConfig": {"caBundle": text}} for name in wrong]
        try:
            self._configuration = await self._client.patch(
                MUTATING_WEBHOOKS,
                self._configuration.name,
                {"webhooks": changes},
                resource_version=self._configuration.metadata.resource_version,
                timeout_s=WRITE_DEADLINE_S,
                lists_by_key=True,
            )
        except NotFoundError:
            self._configuration = None
            return
        _log.info("webhook configuration told whom to trust", configuration=self._configuration.name, webhooks=wrong)
        self._note()

    def _note(self) -> None:
        """Note since when one bundle stands in all webhooks."""
        webhooks = (self._configuration.webhooks if self._configuration else None) or []
        bundles = {one.client_config.ca_bundle for one in webhooks}
        shown = bundles.pop() if len(bundles) == 1 else ""
        if shown != self._shown:
            self._shown, self._shown_since = shown, self._clocks.monotonic()


def _encode(bundle: bytes) -> str:
    return base64.b64encode(bundle).decode()
