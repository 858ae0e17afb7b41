"""A certificate of a process's own, for callers that check no certificate, as kube-scheduler's metrics have one.

It keeps what goes over the line from those who only listen. Its key is never written down and dies with the process.
"""

import datetime as dt
import socket

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.serving.presented import Pair, Presented

_LIFETIME = dt.timedelta(days=3650)


def present_own() -> Presented:
    """Make one in the name of this machine."""
    authority = CertificateAuthority.create("gpuloom self-signed", lifetime=_LIFETIME)
    return Presented(Pair(*authority.issue([socket.gethostname() or "localhost", "localhost"])), "its own certificate")
