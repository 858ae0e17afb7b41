"""What the web API and those who ask it have to agree on: its root, its Service, its header."""

from typing import Final

API_ROOT: Final = "/api/v1"

INSTALLATION_LABEL: Final = "gpuloom.io/installation"
"""Label of an installation's MutatingWebhookConfiguration, which no tenant can write; its value names the release."""

SERVICE_ANNOTATION: Final = "gpuloom.io/web-service"
"""Annotation beside it: ``NAMESPACE/NAME`` of the Service that leads to the pages of the scheduler in charge."""

SERVICE_PORT: Final = "web"
"""Name of that Service's port, which speaks HTTPS."""

TOKEN_HEADER: Final = "X-Gpuloom-Token"  # noqa: S105 - the header's name
"""The API server's proxy keeps Authorization for itself, so the token may come in a header of its own."""
