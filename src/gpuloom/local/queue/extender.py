"""The client side of the scheduler extender's protocol (wire protocol 5), as kube-scheduler speaks it."""

import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec

from gpuloom.local.queue.pods import WholePod
from gpuloom.wire.depth import BAD_JSON, decode
from gpuloom.wire.extender import BindResult, FilterResult

_TIMEOUT_S = 30.0

_T = TypeVar("_T", FilterResult, BindResult)


class ExtenderError(Exception):
    """The extender did not answer, or said that it failed; the message names the call."""


class ExtenderClient:
    """One extender at ``url``; ``ca_pem`` is who signed its certificate, if it speaks HTTPS."""

    def __init__(self, url: str, *, ca_pem: bytes = b"") -> None:
        self._url = url.rstrip("/")
        self._ssl = ssl.create_default_context(cadata=ca_pem.decode()) if ca_pem else True
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def filter(self, pod: WholePod, node_names: Sequence[str]) -> FilterResult:
        """Ask which of these nodes can take the pod.

        Raises ExtenderError when there is no answer or the answer is an error.
        """
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": node_names})
        result = await self._post("filter", body, FilterResult)
        if result.error:
            raise ExtenderError(result.error)
        return result

    async def bind(self, *, namespace: str, name: str, uid: str, node: str) -> None:
        """Have the pod bound to the node.

        Raises ExtenderError when there is no answer or the answer is an error.
        """
        body = msgspec.json.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})
        result = await self._post("bind", body, BindResult)
        if result.error:
            raise ExtenderError(result.error)

    async def _post(self, verb: str, body: bytes, type_: type[_T]) -> _T:
        if self._session is None:
            raise RuntimeError("ExtenderClient is used outside its async with block")
        url = f"{self._url}/{verb}"
        try:
            async with self._session.post(
                url, data=body, headers={"Content-Type": "application/json"}, ssl=self._ssl
            ) as response:
                answer = await response.read()
                if response.status != 200:
                    raise ExtenderError(
                        f"extender {url} answered HTTP {response.status}: {answer[:200].decode(errors='replace')}"
                    )
            return decode(answer, type_)
        except TimeoutError as error:
            raise ExtenderError(f"extender {url} did not answer within {_TIMEOUT_S:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExtenderError(f"extender {url} cannot be reached: {error}") from error
        except BAD_JSON as error:
            raise ExtenderError(f"extender {url} answered something unreadable: {error}") from error
