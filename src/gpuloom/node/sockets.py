"""Unix sockets between the kubelet and its plugins: which paths are allowed, and how to connect."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from gpuloom.node.errors import KubeletError

_LONGEST_SOCKET_PATH = 107
_LARGEST_MESSAGE_BYTES = 4 * 2**20


def check_socket_path(path: Path) -> None:
    """Refuse a path that the operating system cannot bind.

    Raises KubeletError.
    """
    length = len(str(path).encode())
    if length > _LONGEST_SOCKET_PATH:
        raise KubeletError(
            f"socket path {path} has {length} bytes, the system allows {_LONGEST_SOCKET_PATH}: "
            "choose a shorter device plugin directory"
        )


@asynccontextmanager
async def dial(path: Path, *, largest_message_bytes: int = _LARGEST_MESSAGE_BYTES) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel to a Unix socket. Go servers reject the socket path that gRPC would send as the authority."""
    options = [
        ("grpc.default_authority", "localhost"),
        ("grpc.max_receive_message_length", largest_message_bytes),
    ]
    async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
        yield channel
