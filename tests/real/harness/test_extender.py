"""kube-scheduler and the API server call a scheduler extender and a webhook on loopback, as gpuloom is called."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web

from harness.cluster import WEBHOOKS
from harness.controlplane import ControlPlane
from harness.installation import SCHEDULER_NAME, scheduler_configuration, webhook_configuration
from harness.objects import PODS, create_ready_node, make_pod

pytestmark = pytest.mark.control_plane


class Extender:
    """Stands where gpuloom will stand; it notes who called, labels pods, accepts all nodes and binds at once."""

    def __init__(self, control_plane: ControlPlane, authority: trustme.CA):
        self.calls: list[str] = []
        self._api = control_plane.api
        self._authority = authority
        self._app = web.Application()
        self._app.router.add_post("/{verb}", self._answer)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        runner = web.AppRunner(self._app)
        await runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert("127.0.0.1").configure_cert(tls)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        try:
            yield f"https://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        self.calls.append(verb)
        asked = await request.json()
        match verb:
            case "webhook":
                patch = json.dumps([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}])
                answer = {"uid": asked["request"]["uid"], "allowed": True, "patchType": "JSONPatch"}
                answer["patch"] = base64.b64encode(patch.encode()).decode()
                return web.json_response({**asked, "response": answer})
            case "filter":
                return web.json_response({"NodeNames": asked["NodeNames"], "FailedNodes": {}, "Error": ""})
            case _:
                target = {"apiVersion": "v1", "kind": "Node", "name": asked["Node"]}
                binding = {"metadata": {"name": asked["PodName"]}, "target": target}
                await asyncio.to_thread(self._api.create, f"{PODS}/{asked['PodName']}/binding", binding)
                return web.json_response({"Error": ""})


async def test_pod_that_asks_for_a_gpu_passes_webhook_filter_and_bind(own_control_plane: ControlPlane) -> None:
    api = own_control_plane.api
    authority = trustme.CA()
    extender = Extender(own_control_plane, authority)
    async with extender.serve() as url:
        ca_pem = authority.cert_pem.bytes()
        await asyncio.to_thread(api.create, WEBHOOKS, webhook_configuration(f"{url}/webhook", ca_pem=ca_pem))
        await asyncio.to_thread(own_control_plane.start_scheduler, scheduler_configuration(url))
        await asyncio.to_thread(create_ready_node, api, "fake-node")
        pod = make_pod("wants-gpu", scheduler_name=SCHEDULER_NAME, limits={"nvidia.com/gpu": "1"})
        created = await asyncio.to_thread(api.create, PODS, pod)
        assert created["metadata"].get("labels") == {"seen": "yes"}
        await asyncio.to_thread(api.wait_for, f"{PODS}/wants-gpu", lambda found: "nodeName" in found["spec"])
    assert extender.calls == ["webhook", "filter", "bind"]
