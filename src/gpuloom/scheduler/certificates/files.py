"""A certificate in files, loaded again when they change."""

from pathlib import Path

import structlog

from gpuloom.scheduler.clocks import Clocks
from gpuloom.serving.presented import CertificateError, Pair, Presented

PERIOD_S = 10.0

_log = structlog.get_logger(__name__)


class FileCertificates:
    """A certificate and its key as files. ``presented`` shows the pair loaded last."""

    def __init__(self, cert_file: str, key_file: str, clocks: Clocks) -> None:
        """Load the pair.

        Raises CertificateError.
        """
        self._files = (Path(cert_file), Path(key_file))
        self._clocks = clocks
        self._complaint = ""
        self._read_last = self._read()
        self.presented = Presented(self._read_last, self._source)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        await self._clocks.every(PERIOD_S, self.refresh)

    def refresh(self) -> None:
        """Look for a change of the files' content once."""
        try:
            pair = self._read()
            if pair == self._read_last:
                self._complaint = ""
                return
            self._read_last = pair
            self.presented.use(pair, self._source)
        except CertificateError as error:
            if str(error) != self._complaint:
                _log.error("new certificate not used, the old one stays", cause=str(error))
            self._complaint = str(error)
        else:
            self._complaint = ""
            _log.info("new certificate in use", file=str(self._files[0]))

    @property
    def _source(self) -> str:
        certificate, key = self._files
        return f"certificate {certificate} with key {key}"

    def _read(self) -> Pair:
        certificate, key = self._files
        try:
            return Pair(certificate.read_bytes(), key.read_bytes())
        except OSError as error:
            raise CertificateError(f"cannot read {error.filename}: {error.strerror}") from error
