"""Where to listen, as flags say it."""

from dataclasses import dataclass

from gpuloom.kube.login import is_loopback


class CannotServeError(Exception):
    """A server cannot start; the message says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and the flag that says so. An empty host means all interfaces, port 0 a free one."""

    flag: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine, or this pod, can connect."""
        return is_loopback(self.host)

    def url(self, port: int, *, is_tls: bool) -> str:
        """Return the URL, with the port that was found."""
        host = f"[{self.host}]" if ":" in self.host else self.host or "127.0.0.1"
        return f"{'https' if is_tls else 'http'}://{host}:{port}"


def split_address(flag: str, text: str) -> Address:
    """Split the ``host:port`` of a flag.

    Raises CannotServeError when it is not of that form.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise CannotServeError(f"{flag} {text!r} is not host:port, for example 127.0.0.1:8080")
    return Address(flag, host.strip("[]"), int(port))
