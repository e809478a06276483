"""How kernels are compiled and cached, and the number of threads that they run on.

Numba's own cache detects changes only in the file that contains a kernel, keeps its
files next to the source, and has no lock. Here a kernel's cache folder is named by a
digest of all source files that are compiled into it, and is in the user's cache
directory (or in NUMBA_CACHE_DIR). So all processes and copies of the source tree share
compiled kernels.

Without a folder for it there is no cache, and every process compiles its kernels. Numba's
workqueue, the threading layer of machines without OpenMP and TBB, ends the process if two
threads run parallel kernels; there they run one after the other. GNU's OpenMP cannot be
used in a process that was forked after its threads had started; there kernels raise
ForkedProcess. Kernels are compiled with `NUMBA_DISABLE_JIT` too: their vector
instructions have no meaning in Python."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm
import numba
from filelock import FileLock, Timeout
from numba import get_num_threads, set_num_threads
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
)

from dynamics.errors import ForkedProcess
from dynamics.folders import absolute_folder, user_cache_folder

_CONFIG: Any = numba.config

CODE_OPTION = "-no-stack-coloring"
"""Option of LLVM for all code that Numba compiles in this process.

With stack colouring, variables of a function that are not used at the same time share
memory, and LLVM changes the function accordingly. Numba compiles the changed function a
second time, as a part of the functions that call it. A vector can then have the memory
of a variable with a smaller alignment, and the cached machine code ends in a
segmentation fault."""
KEEP_SECONDS = 30 * 24 * 3600
"""Age at which the cache of an outdated version of a kernel is deleted."""
LOCK_SECONDS = 300
"""Longest time to wait for another process that compiles the same kernel."""


llvm.set_option("training-dynamics", CODE_OPTION)


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with `numba.njit` under IEEE arithmetic, also where the user
    has switched compilation off; without a function, the decorator."""
    if function is None:
        return functools.partial(njit, **options)
    disabled = _CONFIG.DISABLE_JIT
    if disabled:
        _warn("NUMBA_DISABLE_JIT has no effect on kernels of training-dynamics")
    _CONFIG.DISABLE_JIT = 0
    try:
        return numba.njit(error_model="numpy", **options)(function)
    finally:
        _CONFIG.DISABLE_JIT = disabled


def cached_kernel(
    *inlined: ModuleType, variant: str = "", **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: compile a function with `njit`, and cache the machine code.

    inlined: modules whose compiled functions or constants the kernel uses; if their
    source or that of the kernel's own module changes, the kernel is compiled again.
    variant: text that distinguishes functions of the same source which refer to
    different values, such as the strengths of forces; it determines all of these
    values. options: those of `numba.njit`, such as parallel or nogil. Only Python calls
    a parallel kernel."""

    def decorate(function: Callable[..., Any]) -> Any:
        if variant:
            name_variant(function, variant)
        kernel = njit(function, **options)
        own = inspect.getfile(function)
        digest = hashlib.sha256(
            b"".join(
                Path(module).read_bytes()
                for module in (own, *map(inspect.getfile, inlined))
            )
            + f"{variant} {CODE_OPTION}".encode()
        )
        name = f"{function.__module__}.{function.__name__}"
        folder = _kernel_folder(name, digest.hexdigest()[:16])
        if folder is not None:
            kernel._cache = _SharedCache(function, folder)
        return _THREADS.guard(kernel) if options.get("parallel") else kernel

    return decorate


kernel_function: Any = functools.partial(
    njit, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
"""Decorator of a function that only kernels call; the code to call it from Python or C
is not compiled."""


def name_variant(function: Callable[..., Any], variant: str) -> Callable[..., Any]:
    """Give one variant of a function, which refers to values of its own, a name of its
    own, and return it.

    The loader takes two compiled functions of the same name for the same one. Numba
    numbers the functions of a process, but machine code in the cache comes from several
    processes."""
    digest = hashlib.sha256(variant.encode()).hexdigest()[:16]
    function.__name__ = f"{function.__name__}_{digest}"
    function.__qualname__ = f"{function.__qualname__}_{digest}"
    return function


def variant_function(variant: str, **options: Any) -> Callable[..., Any]:
    """Decorator: `kernel_function` for one variant of a function; see
    `name_variant`."""

    def decorate(function: Callable[..., Any]) -> Any:
        return kernel_function(name_variant(function, variant), **options)

    return decorate


class _Threads:
    """The threads of Numba's parallel kernels, in this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.lost = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """In a process that has been forked: another thread may have held the lock."""
        self.lock = threading.RLock()
        openmp = sys.modules.get("numba.np.ufunc.omppool")
        with contextlib.suppress(ValueError):  # no thread had been started
            is_used = numba.threading_layer() == "omp"
            self.lost = is_used and getattr(openmp, "openmp_vendor", "") == "GNU"

    def guard(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """A function that calls a parallel kernel where its threads can be used."""

        @functools.wraps(kernel)
        def run(*arguments: Any) -> Any:
            if self.lost:
                raise ForkedProcess(
                    "this process was forked after parallel kernels had run, and GNU's"
                    " OpenMP cannot be used in it; start processes by"
                    " multiprocessing.get_context('spawn')"
                )
            get_num_threads()  # starts the threads
            if numba.threading_layer() != "workqueue":
                return kernel(*arguments)
            with self.lock:
                return kernel(*arguments)

        return run


_THREADS = _Threads()


@functools.cache
def _warn(message: str) -> None:
    """Warn once in a process."""
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def _warn_uncached(reason: str) -> None:
    _warn(
        "compiled kernels cannot be kept, so every process compiles its own"
        f" ({reason}); the environment variable NUMBA_CACHE_DIR names a folder for them"
    )


def _kernel_folder(name: str, digest: str) -> Path | None:
    """The cache folder of one version of a kernel, or None if there can be none;
    folders of versions not used for long are deleted."""
    root = absolute_folder(_CONFIG.CACHE_DIR) or user_cache_folder()
    if root is None:
        _warn_uncached("the user has no home folder")
        return None
    folder = root / f"{name}-{digest}"
    try:
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            for other in root.glob(f"{name}-*"):
                if time.time() - other.stat().st_mtime > KEEP_SECONDS:
                    shutil.rmtree(other, ignore_errors=True)
        os.listdir(folder)
    except OSError as error:
        _warn_uncached(f"{root}: {error.strerror}")
        return None
    return folder


class _FolderLocator:
    """Tells Numba the folder of a kernel's cache, which it does not look for."""

    def __init__(self, folder: Path, function: Callable[..., Any]) -> None:
        self.folder = str(folder)
        self._py_file = inspect.getfile(function)
        self.line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return self.folder

    def get_disambiguator(self) -> str:
        return str(self.line)

    def get_source_stamp(self) -> None:
        return None

    def ensure_cache_path(self) -> None:
        pass


class _FolderImpl(CompileResultCacheImpl):
    """What Numba stores of a compiled kernel, in a given folder."""

    def __init__(self, folder: Path, function: Callable[..., Any]) -> None:
        self._locator = _FolderLocator(folder, function)
        self._lineno = self._locator.line
        name = f"{Path(inspect.getfile(function)).stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class _SharedCache(FunctionCache):
    """Numba's cache of a kernel in a given folder, with a lock: while one process
    compiles, others wait. A folder that cannot be written is read."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._impl_class: Any = functools.partial(_FolderImpl, folder)
        super().__init__(function)
        self._lock: FileLock | None = None

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        """The key of machine code in the folder, which stands for all values that the
        function refers to; Numba's key differs between processes if these are compiled
        functions."""
        return signature, codegen.magic_tuple()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Machine code for a signature. If there is none, the caller compiles and saves
        it, holding the lock."""
        if (overload := super().load_overload(signature, target_context)) is None:
            # created here, because a process must not use a lock that was created
            # before it was forked
            self._lock = FileLock(Path(self._cache_path) / "lock")
            with contextlib.suppress(Timeout, OSError):
                self._lock.acquire(timeout=LOCK_SECONDS)
                if (
                    overload := super().load_overload(signature, target_context)
                ) is not None:
                    self._lock.release(force=True)
        return overload

    def save_overload(self, signature: Any, data: Any) -> None:
        """Save machine code, if the folder can be written."""
        try:
            super().save_overload(signature, data)
        except OSError as error:
            root = Path(self._cache_path).parent
            _warn_uncached(f"{root}: {error.strerror}")
        finally:
            if self._lock is not None:
                self._lock.release(force=True)


@contextlib.contextmanager
def numba_threads(count: int) -> Iterator[None]:
    """Run the kernels called inside a `with` block on `count` threads, or on all
    threads of the process if it has fewer."""
    before = get_num_threads()
    set_num_threads(min(max(1, count), _CONFIG.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        set_num_threads(before)
