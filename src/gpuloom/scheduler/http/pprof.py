"""What the process is doing, for ``--profiling``, as text under HAMi's paths below ``/debug/pprof/``.

Nothing is traced but while somebody asks.
"""

import asyncio
import cProfile
import io
import math
import pstats
import sys
import time
import traceback
import tracemalloc

from aiohttp import web

from gpuloom.serving.admittance import admit
from gpuloom.serving.rights import Rights

_DEFAULT_S = 5.0
_LONGEST_S = 60.0
_MOST_LINES = 50
_LOOK_EVERY_S = 0.001
_INDEX = """goroutine          where every task and thread stands
profile?seconds=5  what takes the event loop's time
heap?seconds=5     what is allocated meanwhile and kept
stalls?seconds=5   how long the event loop lets everybody wait at most, in ms
"""


def profile_routes(rights: Rights | None) -> list[web.RouteDef]:
    """Return the routes; ``rights`` says whose token may get each of them, None lets everybody."""
    shown = {"": _show_index, "goroutine": _show_tasks, "profile": _show_time, "heap": _show_memory}
    shown["stalls"] = _show_stalls
    paths = {f"/debug/pprof/{name}": show for name, show in shown.items()}
    return [web.get(path, admit(rights, path, show) if rights else show) for path, show in paths.items()]


async def _show_index(_request: web.Request) -> web.Response:
    return web.Response(text=_INDEX)


async def _show_tasks(_request: web.Request) -> web.Response:
    text = io.StringIO()
    for task in asyncio.all_tasks():
        task.print_stack(file=text)
    for number, frame in sys._current_frames().items():  # noqa: SLF001 - the only way to other threads' stacks
        text.write(f"Stack for thread {number}:\n{''.join(traceback.format_stack(frame))}")
    return web.Response(text=text.getvalue())


async def _show_time(request: web.Request) -> web.Response:
    seconds, profile, text = _read_seconds(request), cProfile.Profile(), io.StringIO()
    try:
        profile.enable()
    except ValueError as error:
        raise web.HTTPConflict(text="somebody else is profiling now, try again later") from error
    try:
        await asyncio.sleep(seconds)
    finally:
        profile.disable()
    pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(_MOST_LINES)
    return web.Response(text=text.getvalue())


async def _show_memory(request: web.Request) -> web.Response:
    seconds = _read_seconds(request)
    if tracemalloc.is_tracing():
        raise web.HTTPConflict(text="somebody else is profiling now, try again later")
    tracemalloc.start()
    try:
        await asyncio.sleep(seconds)
        found = tracemalloc.take_snapshot().statistics("lineno")
    finally:
        tracemalloc.stop()
    return web.Response(text="".join(f"{line}\n" for line in found[:_MOST_LINES]))


async def _show_stalls(request: web.Request) -> web.Response:
    """Look how late a timer comes, and how much of that this process computed: it may also wait for a processor."""
    end_s, looks, late_s, busy_s = time.monotonic() + _read_seconds(request), 0, 0.0, 0.0
    while (began_s := time.monotonic()) < end_s:
        spent_s = time.thread_time()
        await asyncio.sleep(_LOOK_EVERY_S)
        waited_s = time.monotonic() - began_s - _LOOK_EVERY_S
        late_s = max(late_s, waited_s)
        busy_s = max(busy_s, min(waited_s, time.thread_time() - spent_s))
        looks += 1
    return web.Response(text=f"longest_ms {late_s * 1e3:.3f}\ncomputing_ms {busy_s * 1e3:.3f}\nlooks {looks}\n")


def _read_seconds(request: web.Request) -> float:
    try:
        seconds = float(request.query.get("seconds", _DEFAULT_S))
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise web.HTTPBadRequest(text="seconds is no number")
    return min(max(seconds, 0.0), _LONGEST_S)
