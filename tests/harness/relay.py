"""A program that lets this machine's loopback reach a port inside another network namespace.

Usage: python relay.py PORT NAMESPACE ADDRESS PORT, for example 40001 /proc/4711/ns/net 127.0.0.1 443. It listens out
here, then goes into the namespace and connects from there.
"""

import asyncio
import ctypes
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

CLONE_NEWNET = 0x40000000


def enter_namespace(path: str) -> None:
    """Move this process; sockets that are open already stay where they are. Raise OSError."""
    with Path(path).open() as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)


async def relay(listener: socket.socket, address: str, port: int) -> None:
    """Join every connection of `listener` with one to the address, until killed."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(address, port)
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        writer.close()

    server = await asyncio.start_server(join, sock=listener)
    await server.serve_forever()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side has had enough."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    own_port, namespace, far_address, far_port = sys.argv[1:]
    opened = socket.create_server(("127.0.0.1", int(own_port)))
    enter_namespace(namespace)
    asyncio.run(relay(opened, far_address, int(far_port)))
