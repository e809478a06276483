"""Points of a grid computed on a dask.distributed cluster: workers return sealed files, and only this process writes.

A worker that dies loses nothing and doubles nothing.
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
import queue
import re
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dynamics.errors import Interrupted, MissingPackage, RecordingError, TrajectoryError
from dynamics.interruption import deferred_signals
from dynamics.kernels.compiling import numba_threads
from dynamics.preparation import find_finished_run
from dynamics.provenance import check_same_run
from dynamics.settings import SettingsError
from dynamics.sweeps.design import SweepDesign, SweepPoint, errors_with_point, simulate_point
from dynamics.trajectory.lock import hold_lock
from dynamics.trajectory.netcdf import fsync_path
from dynamics.trajectory.reader import checkpoints, open_trajectory
from dynamics.trajectory.recorder import remove_merged_parts

CONNECT_TIMEOUT = 10.0
POLL_INTERVAL = 0.5
"""How long a sweep on a cluster may be deaf to a signal."""


class SweepError(RecordingError):
    """A sweep that could not be completed; says which points are missing, and why."""


def check_scheduler(address: str) -> None:
    """Refuse what is not the address of a dask scheduler."""
    found = re.fullmatch(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})", address)
    if not found or not 0 < int(found[3]) < 65536:
        raise SettingsError("scheduler", address or "no address", "an address such as tcp://127.0.0.1:8786")


def compute_point(point: SweepPoint, grid: SweepDesign) -> bytes:
    """What a worker does: the whole ensemble of a point, on one thread, as the bytes of its sealed file."""
    import distributed

    scratch = distributed.get_worker().local_directory  # dask clears it when a worker has died
    with numba_threads(1), tempfile.TemporaryDirectory(dir=scratch) as folder:
        out = Path(folder) / point.path.name
        simulate_point(point, grid, out, progress=False)
        return out.read_bytes()


def compute_on_cluster(
    grid: SweepDesign, points: list[SweepPoint], scheduler: str, bar: tqdm
) -> Generator[SweepPoint, None, None]:
    """Compute the points on the workers of a cluster; gives each when it is done.

    There are no more at a time than workers have threads, so that none waits behind one that kills its worker. What
    kills every worker that tries it, by dask's count, becomes a SweepError when the others are done.
    """
    if not points:
        return
    bare, waiting, killers = dataclasses.replace(grid, points=[]), points[::-1], []
    flying: dict[str, tuple[SweepPoint, Any]] = {}
    landed: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with _client(scheduler) as client, deferred_signals() as received:
        while (waiting or flying) and not received:
            threads = sum(client.nthreads().values())
            bar.set_postfix_str("" if threads else "no worker")
            while waiting and len(flying) < max(1, threads):
                point = waiting.pop()
                future = client.submit(compute_point, point, bare, pure=False)
                flying[future.key] = point, future
                future.add_done_callback(landed.put)
            if (future := _next(landed)) is None:
                continue
            point, _ = flying.pop(future.key)
            with errors_with_point(point):
                content = _content(future)
                if content is None:
                    killers.append(point)
                    continue
                _place(point, content)
            yield point
    if waiting or flying:
        raise Interrupted(received[0], None, 0, 0)
    if killers:
        names = "; ".join(point.label for point in killers)
        raise SweepError(f"workers that computed a point died, as they do for want of memory: {names}")


def _next(landed: "queue.SimpleQueue[Any]") -> Any:
    """A future that has come to its end, if one does soon."""
    try:
        future = landed.get(timeout=POLL_INTERVAL)
    except queue.Empty:
        return None
    if future.status in ("pending", "lost"):  # its worker died after it was done: dask computes it again
        time.sleep(POLL_INTERVAL)
        landed.put(future)
        return None
    return future


def _content(future: Any) -> bytes | None:
    """What a worker sent back; None if all that tried have died. Its errors are raised as themselves."""
    import distributed

    try:
        return future.result()
    except distributed.KilledWorker:
        return None
    except (SettingsError, TrajectoryError, RecordingError, MissingPackage, CancelledError):
        raise
    except Exception as error:
        raise SweepError(f"a worker failed: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _client(address: str) -> Iterator[Any]:
    """A connection to the scheduler. Raises MissingPackage, SweepError."""
    try:
        import distributed
    except ImportError as error:
        if error.name not in ("dask", "distributed"):
            raise
        package = "pip install 'training-dynamics[sweep]'"
        raise MissingPackage(f"a cluster needs dask.distributed, which comes with: {package}") from None
    with ThreadPoolExecutor(1) as aside:  # there may be an event loop in this thread
        aside.submit(asyncio.run, _check_answers(address)).result()
    try:
        with _quiet(), distributed.Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False) as client:
            yield client
    except (OSError, CancelledError):
        raise SweepError(f"scheduler {address}: the connection was lost; what is done is kept") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without dask's own reports of connections and workers that come and go."""
    logs = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


async def _check_answers(address: str) -> None:
    """Raise SweepError unless a scheduler answers in time; dask's own client waits for ever on other servers."""
    import distributed

    async def kind() -> object:
        async with distributed.rpc(address) as other:
            return (await other.identity())["type"]

    try:
        found = await asyncio.wait_for(kind(), CONNECT_TIMEOUT)
    except Exception:  # anything may come back
        raise SweepError(f"scheduler {address}: no answer within {CONNECT_TIMEOUT:g} s") from None
    if found != "Scheduler":
        raise SweepError(f"scheduler {address}: is a {found}")


def _place(point: SweepPoint, content: bytes) -> None:
    """Give a file from a worker its name, when it has been seen to be whole, and what was asked for.

    Raises RecordingError.
    """
    path = point.path
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(path):
            if (there := find_finished_run(path, point.what, point.steps)) is not None:  # by another process, since
                there.close()
                return
            for left in path.parent.glob(f".{path.name}.*.tmp"):  # by one that was killed
                left.unlink()
            temporary.write_bytes(content)
            _check_received(temporary, point)
            fsync_path(temporary)
            os.replace(temporary, path)
            fsync_path(path.parent)
    except OSError as error:
        raise RecordingError(f"{path}: could not be written ({error.strerror or error})") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    remove_merged_parts(path, point.steps, point.what)


def _check_received(file: Path, point: SweepPoint) -> None:
    try:
        with open_trajectory(file) as trajectory, checkpoints(file):
            check_same_run(file, trajectory.attrs, point.what)
            reached = int(trajectory["step"][-1])
    except (TrajectoryError, SettingsError) as error:
        raise SweepError(f"a worker sent back something else, as one with another version does: {error}") from None
    if reached != point.steps:
        raise SweepError(f"a worker sent back {reached} steps of {point.steps}")
