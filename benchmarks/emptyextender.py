"""An extender that does nothing: Filter names the next node in turn, Bind posts the binding. It prints its URL.

With ``--annotated`` the binding carries as many bytes as gpuloom's, which say nothing.
"""

import asyncio
import itertools
import sys
from collections.abc import Mapping

import msgspec
import uvloop
from aiohttp import web

from gpuloom.kube import ApiError, KubeClient, load_kubeconfig
from gpuloom.wire.extender import (
    BindResult,
    FilterResult,
    decode_bind_args,
    decode_filter_args,
    encode_result,
)
from gpuloom.wire.keys import (
    BIND_PHASE,
    BIND_TIME,
    DEVICES_ALLOCATED,
    DEVICES_TO_ALLOCATE,
    PHASE_ALLOCATING,
    VGPU_NODE,
    VGPU_TIME,
)

SHARE = "GPU-00000000-0000-0000-0000-000000000000,NVIDIA,1000,0:;"
TIME = "1700000000"
ANNOTATIONS = {
    BIND_PHASE: PHASE_ALLOCATING,
    BIND_TIME: TIME,
    VGPU_NODE: "node-100",
    VGPU_TIME: TIME,
    DEVICES_ALLOCATED: SHARE,
    DEVICES_TO_ALLOCATE: SHARE,
}


class EmptyExtender:
    """The two verbs."""

    def __init__(self, client: KubeClient, annotations: Mapping[str, str]) -> None:
        self._client = client
        self._annotations = annotations
        self._turns = itertools.count()

    async def filter(self, request: web.Request) -> web.Response:
        """Name one node."""
        given = decode_filter_args(await request.read()).nodenames
        names = given.all() if given else []
        chosen = [names[next(self._turns) % len(names)]] if names else []
        return _answer(FilterResult(node_names=chosen))

    async def bind(self, request: web.Request) -> web.Response:
        """Post the binding."""
        args = decode_bind_args(await request.read())
        try:
            await self._client.bind(
                namespace=args.podnamespace,
                name=args.podname,
                uid=args.poduid,
                node=args.node,
                annotations=self._annotations,
                labels={},
            )
        except ApiError as error:
            return _answer(BindResult(error=str(error)))
        return _answer(BindResult())


def _answer(result: msgspec.Struct) -> web.Response:
    return web.Response(body=encode_result(result), content_type="application/json")


async def serve(kubeconfig: str, annotations: Mapping[str, str]) -> None:
    """Serve until the end."""
    async with KubeClient(load_kubeconfig(kubeconfig)) as client:
        extender = EmptyExtender(client, annotations)
        app = web.Application(client_max_size=2**24)
        app.add_routes([web.post("/filter", extender.filter), web.post("/bind", extender.bind)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], ANNOTATIONS if "--annotated" in sys.argv else {}))
