"""Names and addresses of a certificate, spelled as a certificate gives them back."""

import re
from ipaddress import ip_address
from typing import Final

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_DNS_NAME: Final = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_LONGEST: Final = 253
_IN_BRACKETS: Final = re.compile(r"\[(.*:.*)\]")


def read_host(text: str) -> str:
    """Return the one spelling of a DNS name or an address; an IPv6 address may stand in brackets, as in a URL.

    Raises ValueError when no certificate can name it.
    """
    bracketed = _IN_BRACKETS.fullmatch(text)
    host = bracketed[1] if bracketed else text
    # The zone of an address means something on one machine only; certificates leave it out.
    if "%" not in host and (address := _find_address(host)):
        return address
    name = host.lower().removesuffix(".")
    if len(name) > _LONGEST or not _DNS_NAME.fullmatch(name):
        raise ValueError(f"{text} is neither a DNS name (letters of other scripts in their xn-- form) nor an address")
    return name


def _find_address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        return ""
