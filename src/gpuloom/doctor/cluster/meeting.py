"""Talks to a webhook from here as an API server would: with its CA bundle as the only authority."""

import asyncio
import base64
import ssl
from urllib.parse import urlsplit

from gpuloom.doctor.cluster.facts import Meeting, Trust
from gpuloom.doctor.cluster.objects import InstalledClient

_ANSWER_S = 3.0
_HTTPS = 443


async def meet(client: InstalledClient) -> Meeting:
    """Find out whether the certificate that is presented is one that the CA bundle signs. Nothing is asked."""
    try:
        host, port = _find_address(client)
        context = _trust(client)
    except (ValueError, ssl.SSLError) as error:
        return Meeting(Trust.UNREACHABLE, str(error))
    try:
        async with asyncio.timeout(_ANSWER_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        return Meeting(Trust.REFUSED, error.verify_message)
    except ssl.SSLError as error:
        return Meeting(Trust.REFUSED, error.reason or str(error))
    except (OSError, TimeoutError, UnicodeError) as error:
        return Meeting(Trust.UNREACHABLE, f"{host}:{port} cannot be reached from here: {error}")
    writer.close()
    return Meeting(Trust.TRUSTED)


def _find_address(client: InstalledClient) -> tuple[str, int]:
    if client.url:
        url = urlsplit(client.url)
        if not url.hostname:
            raise ValueError(f"the URL {client.url!r} names no host")
        return url.hostname, url.port or _HTTPS
    if client.service is None:
        raise ValueError("it has neither a URL nor a Service")
    return f"{client.service.name}.{client.service.namespace}.svc", client.service.port


def _trust(client: InstalledClient) -> ssl.SSLContext:
    if not client.ca_bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(client.ca_bundle).decode())
