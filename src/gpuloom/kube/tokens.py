"""Where the proof of who we are comes from: nothing, a fixed token, a file that is replaced now and then.

Programs that hand out tokens are in :mod:`gpuloom.kube.execplugin`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuloom.kube.errors import CredentialsError


@dataclass(frozen=True, slots=True)
class Proof:
    """What a request presents: a bearer token, or a client certificate with its key (PEM), or nothing."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


class ProofSource(Protocol):
    """Gives the proof that is valid now; called before every request, so it has to remember."""

    async def proof(self) -> Proof:
        """Give the current proof or raise :class:`CredentialsError`."""
        ...


class FixedProof:
    """Always the same proof."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof

    async def proof(self) -> Proof:
        """Give the proof."""
        return self._proof


class TokenFile:
    """A token in a file that somebody else replaces (bound service account tokens change about once an hour)."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._proof = Proof()

    async def proof(self) -> Proof:
        """Give the file's token, read again whenever the file changed; the last token outlives a lost file."""
        try:
            self._refresh()
        except OSError as error:
            if not self._proof.token:
                raise CredentialsError(
                    f"cannot read the token file {self._file}: {error.strerror}; make it readable"
                ) from error
        if not self._proof.token:
            raise CredentialsError(f"the token file {self._file} is empty: it must hold a token")
        return self._proof

    def _refresh(self) -> None:
        status = self._file.stat()
        seen = (status.st_mtime_ns, status.st_ino, status.st_size)
        if seen == self._seen:
            return
        # An empty file is one that is being written: keep the old token and look again next time.
        if token := self._file.read_text(errors="replace").strip():
            self._proof, self._seen = Proof(token=token), seen
