"""How kernels are compiled and cached, and the number of threads that they run on.

Numba's own cache detects changes only in the file that contains a kernel, keeps its
files next to the source, and has no lock. Here a kernel's cache folder is named by a
digest of all source files that are compiled into it, and is in the user's cache
directory (or in NUMBA_CACHE_DIR). So all processes and copies of the source tree share
compiled kernels."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from filelock import FileLock, Timeout
from numba import get_num_threads, njit, set_num_threads
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.misc.appdirs import AppDirs

KEEP_SECONDS = 30 * 24 * 3600
"""Age at which the cache of an outdated version of a kernel is deleted."""
LOCK_SECONDS = 300
"""Longest time to wait for another process that compiles the same kernel."""


def cached_kernel(
    *inlined: ModuleType, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: compile a function with `numba.njit` under IEEE arithmetic, and cache
    the machine code.

    inlined: modules whose compiled functions or constants the kernel uses; if their
    source or that of the kernel's own module changes, the kernel is compiled again.
    options: those of `njit`, such as parallel or nogil."""

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(error_model="numpy", cache=True, **options)(function)
        own = inspect.getfile(function)
        digest = hashlib.sha256(
            b"".join(
                Path(module).read_bytes()
                for module in (own, *map(inspect.getfile, inlined))
            )
        )
        name = f"{function.__module__}.{function.__name__}"
        with contextlib.suppress(
            OSError
        ):  # without a writable folder Numba's own cache is used
            kernel._cache = _SharedCache(
                function, _create_folder(name, digest.hexdigest()[:16])
            )
        return kernel

    return decorate


kernel_function: Any = partial(
    njit, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)
"""Decorator of a function that only kernels call; the code to call it from Python or C
is not compiled."""


def _create_folder(name: str, digest: str) -> Path:
    """The cache folder of one version of a kernel; folders of versions not used for
    long are deleted."""
    root = Path(
        os.environ.get("NUMBA_CACHE_DIR") or AppDirs("training-dynamics").user_cache_dir
    )
    folder = root / f"{name}-{digest}"
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for other in root.glob(f"{name}-*"):
            if time.time() - other.stat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    return folder


class _SharedCache(FunctionCache):
    """Numba's cache of a kernel in a given folder, with a lock: while one process
    compiles, others wait."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        super().__init__(function)
        (folder / "lock").touch()
        self._lock: FileLock | None = None
        self._cache_path = str(folder)
        self._cache_file = IndexDataCacheFile(
            str(folder), self._impl.filename_base, source_stamp=None
        )

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Machine code for a signature. If there is none, the caller compiles and saves
        it, holding the lock."""
        if (overload := super().load_overload(signature, target_context)) is None:
            # created here, because a process must not use a lock that was created
            # before it was forked
            self._lock = FileLock(Path(self._cache_path) / "lock")
            with contextlib.suppress(Timeout):
                self._lock.acquire(timeout=LOCK_SECONDS)
                if (
                    overload := super().load_overload(signature, target_context)
                ) is not None:
                    self._lock.release(force=True)
        return overload

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        finally:
            if self._lock is not None:
                self._lock.release(force=True)


@contextlib.contextmanager
def numba_threads(count: int) -> Iterator[None]:
    """Run the kernels called inside a `with` block on `count` threads."""
    before = get_num_threads()
    set_num_threads(max(1, count))
    try:
        yield
    finally:
        set_num_threads(before)
