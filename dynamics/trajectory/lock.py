"""The lock that prevents two processes from writing the same trajectory.

It is a lock of the operating system on a file .NAME.lock in the same folder, and is
released when the process that holds it ends or is killed. Only a killed process leaves
the file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from dynamics.errors import RecordingError
from dynamics.trajectory.netcdf import resolve_link


def trajectory_lock(path: Path) -> FileLock:
    """The lock that a process holds while it writes to `path`."""
    path = resolve_link(path)
    return FileLock(path.with_name(f".{path.name}.lock"))


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of `path`, or raise RecordingError. Its file is removed at the
    end, while the lock is held; a process that waits for it then makes a new one."""
    lock = trajectory_lock(path)
    try:
        lock.acquire(
            timeout=1, poll_interval=0.05
        )  # a listing of runs may hold it for a moment
    except Timeout:
        if not Path(lock.lock_file).exists():  # the lock file cannot be created
            raise RecordingError(f"{path}: cannot be written") from None
        raise RecordingError(f"{path}: another process is writing it") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            Path(lock.lock_file).unlink()
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process is writing to `path`; False if the lock cannot be tested."""
    lock = trajectory_lock(path)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False
