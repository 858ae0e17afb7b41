"""The socket of the device plugin: what is begun is ended, whenever somebody wants it to end."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpuloom.node.api.deviceplugin_pb2_grpc import DevicePluginServicer
from gpuloom.node.server import serve


class Idle(DevicePluginServicer):  # type: ignore[misc] # generated, without types
    """A plugin that nobody calls."""

    def end_streams(self) -> None:
        """There are none."""

    async def finish_allocations(self) -> None:
        """There are none."""


async def serve_for_ever(path: Path) -> None:
    async with serve(Idle(), path):
        await asyncio.Event().wait()


@pytest.mark.parametrize("turns", range(4))
def test_a_start_that_is_cancelled_ends_at_any_step(turns: int) -> None:
    async def cancel(path: Path) -> None:
        serving = asyncio.create_task(serve_for_ever(path))
        for _ in range(turns):
            await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    with TemporaryDirectory() as folder:
        asyncio.run(cancel(Path(folder, "gpu.sock")))
        assert list(Path(folder).iterdir()) == []
