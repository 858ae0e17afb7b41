"""Where the proof of identity comes from: nothing, a fixed token, or a file that is replaced now and then.

Programs that hand out tokens are in :mod:`gpuloom.kube.execplugin`.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from gpuloom.kube.errors import CredentialsError


@dataclass(frozen=True, slots=True)
class Proof:
    """What a request presents: a bearer token, or a client certificate with its key (PEM), or nothing."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


def trim(proof: Proof) -> Proof:
    """Take space and line ends off a token, as they come with files and variables.

    Raises CredentialsError, which does not tell the token, when a header cannot have it.
    """
    token = proof.token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError("the token has characters that no token has: copy it anew, in one line")
    return proof if token == proof.token else replace(proof, token=token)


class ProofSource(Protocol):
    """Returns the proof that is valid now; called before every request, so it must keep its answer."""

    async def proof(self) -> Proof:
        """Return the current proof; raises :class:`CredentialsError`."""
        ...


class FixedProof:
    """Always returns the same proof."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof

    async def proof(self) -> Proof:
        """Return the proof."""
        return self._proof


class TokenFile:
    """A token in a file that somebody else replaces (bound service account tokens change about once an hour)."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._proof = Proof()

    async def proof(self) -> Proof:
        """Return the file's token, read again when the file has changed; keep the last token when the file is lost."""
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
