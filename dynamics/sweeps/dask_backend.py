"""Computing the points of a sweep on a dask.distributed cluster.

Workers return sealed files, and only this process writes them to the sweep's folder. If
a worker dies, its point is computed again by another worker, and no other point is lost
or computed twice."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import importlib
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
from typing import Any, Protocol, TypeVar

from tqdm import tqdm

from dynamics.errors import Interrupted, MissingPackage, RecordingError, TrajectoryError
from dynamics.kernels.compiling import numba_threads
from dynamics.loop import deferred_signals
from dynamics.settings import SettingsError
from dynamics.sweeps.design import errors_with_point
from dynamics.trajectory.netcdf import fsync_path, hold_lock

CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a reply of the scheduler."""
POLL_INTERVAL = 0.5
"""Seconds between checks for signals and finished points."""


class SweepError(RecordingError):
    """A sweep could not be completed; the message names the missing points and the
    reason."""


class SweepTask(Protocol):
    """A trajectory to compute. Tasks are sent to workers, so they can be pickled."""

    @property
    def label(self) -> str:
        """Its settings as text."""

    @property
    def path(self) -> Path:
        """Its file in the folder of the sweep."""

    def is_finished(self) -> bool:
        """Whether the file is complete."""

    def compute(self, out: Path, progress: bool = False) -> None:
        """Compute it into the file `out`."""

    def check_file(self, file: Path) -> None:
        """Raise TrajectoryError, SettingsError unless a file is its trajectory."""

    def remove_parts(self) -> None:
        """Remove what an unfinished run has left."""


Task = TypeVar("Task", bound=SweepTask)


Scheduler = Any
"""Where a sweep is computed: the address of a dask scheduler, a distributed.Client, or a
cluster, such as a LocalCluster or one of dask-jobqueue."""
_ADDRESS = "an address such as tcp://127.0.0.1:8786"


def check_scheduler(scheduler: Scheduler) -> None:
    """Raise SettingsError unless `scheduler` has the form of a dask scheduler's address,
    or is a client or a cluster. Raises MissingPackage."""
    if isinstance(scheduler, str):
        address = r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})"
        parts = re.fullmatch(address, scheduler)
        if not parts or not 0 < int(parts[3]) < 65536:
            raise SettingsError("scheduler", scheduler or "no address", _ADDRESS)
        return
    found = f"a {type(scheduler).__name__}"
    allowed = f"{_ADDRESS}, or a dask Client or cluster that is running"
    if not isinstance(scheduler, _dask_types()):
        raise SettingsError("scheduler", found, allowed)
    given: Any = scheduler
    status = getattr(given.status, "name", given.status)
    if given.asynchronous or status != "running":
        kind = "asynchronous" if given.asynchronous else status
        raise SettingsError("scheduler", f"{found} that is {kind}", allowed)


def _dask_types() -> tuple[type, type]:
    """The classes of dask's clients and clusters. Raises MissingPackage."""
    distributed = _import_distributed()
    return distributed.Client, importlib.import_module("distributed.deploy").Cluster


def compute_point(point: SweepTask) -> bytes:
    """Compute a point on one thread of a worker; return the bytes of
    its sealed file."""
    scratch = (
        _import_distributed().get_worker().local_directory
    )  # dask deletes it when a worker has died
    with numba_threads(1), tempfile.TemporaryDirectory(dir=scratch) as folder:
        out = Path(folder) / point.path.name
        point.compute(out)
        return out.read_bytes()


def compute_on_cluster(
    points: list[Task], scheduler: Scheduler, bar: tqdm
) -> Generator[Task, None, None]:
    """Compute the points on the workers of a cluster; yield each when it is finished.

    No more points are submitted than the workers have threads, so that no point waits
    behind one that kills its worker. Points whose workers die at every attempt (dask
    limits their number) are tried again one at a time when all others are finished,
    since another point may have killed those workers. Points that fail again are named
    in a SweepError."""
    if not points:
        return
    waiting = points[::-1]
    suspects: list[Task] = []
    killers: list[Task] = []
    alone = False
    submitted: dict[str, tuple[Task, Any]] = {}  # keeps the futures alive
    completed: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with _client(scheduler) as client, deferred_signals() as received:
        while (waiting or submitted or suspects) and not received:
            if not waiting and not submitted:
                waiting = suspects
                suspects = []
                alone = True
            threads = sum(client.nthreads().values())
            bar.set_postfix_str("" if threads else "no worker")
            while waiting and len(submitted) < (1 if alone else max(1, threads)):
                point = waiting.pop()
                future = client.submit(compute_point, point, pure=False)
                submitted[future.key] = point, future
                future.add_done_callback(completed.put)
            if (future := _next_completed(completed)) is None:
                continue
            point, _ = submitted.pop(future.key)
            with errors_with_point(point):
                content = _file_content(future)
                if content is None:
                    (killers if alone else suspects).append(point)
                    continue
                _save_file(point, content)
            yield point
    if waiting or submitted or suspects:
        raise Interrupted(received[0], None, 0, 0)
    if killers:
        names = "; ".join(point.label for point in killers)
        raise SweepError(
            "workers died while they computed these points, perhaps for lack of"
            f" memory: {names}"
        )


def _next_completed(completed: queue.SimpleQueue[Any]) -> Any:
    """The next completed future, or None if there is none within the poll interval."""
    try:
        future = completed.get(timeout=POLL_INTERVAL)
    except queue.Empty:
        return None
    if future.status in (
        "pending",
        "lost",
    ):  # its worker died after completing it: dask computes it again
        time.sleep(POLL_INTERVAL)
        completed.put(future)
        return None
    return future


def _file_content(future: Any) -> bytes | None:
    """The bytes that a worker returned; None if all workers that tried have died.
    Raises the worker's own errors."""
    try:
        return future.result()
    except _import_distributed().KilledWorker:
        return None
    except (
        SettingsError,
        TrajectoryError,
        RecordingError,
        MissingPackage,
        CancelledError,
    ):
        raise
    except Exception as error:
        raise SweepError(f"a worker failed: {type(error).__name__}: {error}") from error


def _import_distributed() -> Any:
    """The package dask.distributed. Raises MissingPackage."""
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        if error.name not in ("dask", "distributed"):
            raise
        package = "pip install 'training-dynamics[sweep]'"
        raise MissingPackage(
            f"a cluster needs dask.distributed; install it by: {package}"
        ) from None


@contextlib.contextmanager
def _client(scheduler: Scheduler) -> Iterator[Any]:
    """A connection to the scheduler; a client that was given stays open. Raises
    MissingPackage, SweepError."""
    distributed = _import_distributed()
    address = scheduler
    if isinstance(scheduler, str):
        with ThreadPoolExecutor(1) as pool:  # this thread may have an event loop
            pool.submit(asyncio.run, _check_answers(scheduler)).result()
    else:
        address = f"of the {type(scheduler).__name__}"
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_without_dask_log())
            client = scheduler
            if not isinstance(scheduler, distributed.Client):
                client = stack.enter_context(
                    distributed.Client(
                        scheduler, timeout=CONNECT_TIMEOUT, set_as_default=False
                    )
                )
            yield client
    except (OSError, CancelledError):
        raise SweepError(
            f"scheduler {address}: the connection was lost; finished points are kept"
        ) from None


@contextlib.contextmanager
def _without_dask_log() -> Iterator[None]:
    """Silence dask's log messages about connections and workers in a `with` block."""
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
    """Raise SweepError unless a dask scheduler answers in time; a dask client waits
    forever on other servers."""

    async def kind() -> object:
        async with _import_distributed().rpc(address) as other:
            return (await other.identity())["type"]

    try:
        result = await asyncio.wait_for(kind(), CONNECT_TIMEOUT)
    except Exception:  # another server may answer anything
        raise SweepError(
            f"scheduler {address}: no answer within {CONNECT_TIMEOUT:g} s"
        ) from None
    if result != "Scheduler":
        raise SweepError(
            f"scheduler {address}: this is a dask {result}, not a scheduler"
        )


def _save_file(point: SweepTask, content: bytes) -> None:
    """Write a file from a worker to the path of its point, after checking that it is
    complete and of the right point.

    Raises RecordingError.
    """
    path = point.path
    temporary = path.with_name(
        f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(path):
            if point.is_finished():  # computed by another process in the meantime
                return
            for remnant in path.parent.glob(
                f".{glob.escape(path.name)}.*.tmp"
            ):  # of a process that was killed
                remnant.unlink()
            temporary.write_bytes(content)
            _check_received(temporary, point)
            fsync_path(temporary)
            os.replace(temporary, path)
            fsync_path(path.parent)
    except OSError as error:
        raise RecordingError(
            f"{path}: could not be written ({error.strerror or error})"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    point.remove_parts()


def _check_received(file: Path, point: SweepTask) -> None:
    """Raise SweepError unless a file contains the finished run of a point."""
    try:
        point.check_file(file)
    except (TrajectoryError, SettingsError) as error:
        raise SweepError(
            "a worker returned a wrong file, perhaps because of another version:"
            f" {error}"
        ) from None
