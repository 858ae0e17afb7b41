"""People before dashboards: each opens a page and follows its stream. ``python viewers.py URL TOKEN``.

Reads ``on`` and ``off`` from standard input; on ``off`` it prints what they saw since ``on``.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field

import aiohttp

PAGES = ("/", "/", "/", "/", "/pending", "/pending", "/nodes", "/nodes/node-1", "/decisions", "/quotas")
"""Ten people."""


@dataclass
class Seen:
    """How long first views took, how large they were, and what came after."""

    first_views_ms: list[float] = field(default_factory=list)
    first_bytes: int = 0
    events: int = 0
    event_bytes: int = 0


async def look(session: aiohttp.ClientSession, url: str, path: str, seen: Seen, opened: asyncio.Event) -> None:
    """Open a page and follow it until cancelled; ``opened`` is set when it is there, or failed."""
    began = time.perf_counter()
    try:
        async with session.get(f"{url}{path}") as reply:
            body = await reply.read()
            reply.raise_for_status()
    finally:
        opened.set()
    seen.first_views_ms.append((time.perf_counter() - began) * 1000)
    seen.first_bytes += len(body)
    state = body.partition(b'data-state="')[2].partition(b'"')[0].decode()
    async with session.get(f"{url}/live{path.rstrip('/')}", params={"state": state}) as reply:
        reply.raise_for_status()
        async for chunk in reply.content.iter_any():
            seen.event_bytes += len(chunk)
            seen.events += chunk.count(b"event: change")


async def main(url: str, token: str) -> None:
    """Come and go as told."""
    loop = asyncio.get_running_loop()
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}, timeout=timeout) as session:
        while (await loop.run_in_executor(None, sys.stdin.readline)).strip() == "on":
            seen = Seen()
            opened = [asyncio.Event() for _ in PAGES]
            coming = zip(PAGES, opened, strict=True)
            people = [asyncio.create_task(look(session, url, path, seen, event)) for path, event in coming]
            await loop.run_in_executor(None, sys.stdin.readline)
            for event in opened:
                await event.wait()
            for person in people:
                person.cancel()
            ended = await asyncio.gather(*people, return_exceptions=True)
            faults = [repr(error) for error in ended if not isinstance(error, asyncio.CancelledError)]
            print(json.dumps({**asdict(seen), "faults": faults}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
