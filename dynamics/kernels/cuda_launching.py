"""How kernels for CUDA devices are compiled and launched.

Numba compiles them, with the package numba-cuda. One block of threads computes one run,
in shared memory, so that the bits of a run depend on that run alone. Sizes are constants
of a kernel, which is compiled for each combination of them.

Numba's simulator (NUMBA_ENABLE_CUDASIM=1) runs the same kernels in Python. It replaces
`cuda` in the module of a function while a thread runs it, and threads would undo this
for each other; so only kernels themselves use `cuda`, and device functions take the
thread and the number of threads as arguments."""

import contextlib
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import config, cuda

SIMULATED = bool(getattr(cuda, "config", config).ENABLE_CUDASIM)
"""Whether kernels run in Numba's simulator."""
PLAIN_SHARED_BYTES = 48 * 1024
"""Shared memory that every block may take; more has to be allowed for a kernel."""
MAX_SHARED_BYTES = 227 * 1024
"""Largest shared memory of a block, on devices of compute capability 9.0."""
WARP = 32
"""Threads that a device runs in step."""

MAX_REGISTERS = 96
"""Registers of a thread; with more of them fewer blocks run at a time."""

index = np.uint64
"""Type of the indices in kernels: where they are signed, each access would ask whether
an index counts from the end."""

LAUNCH_SECONDS = 0.25
"""Time that one launch should take: short enough to interrupt a training, and long
beside the time that a launch costs."""


def device_function(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call; its code is inlined."""
    options = {} if SIMULATED else {"forceinline": True}
    _prepare_simulation(function)
    return cuda.jit(device=True, **options)(function)


def cuda_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel under IEEE arithmetic. Products whose sum is taken are rounded
    once, with it."""
    options = (
        {}
        if SIMULATED
        else {"shared_memory_carveout": "maxshared", "max_registers": MAX_REGISTERS}
    )
    _prepare_simulation(function)
    return cuda.jit(**options)(function)


def _prepare_simulation(function: Callable[..., Any]) -> None:
    """Add what Python adds to the names of a module at its first warning. In the
    simulator several threads look through these names, which must not change then."""
    if SIMULATED:
        function.__globals__.setdefault("__warningregistry__", {})


def shared_limit() -> int:
    """Largest shared memory of a block of this device, in bytes."""
    if SIMULATED:
        return MAX_SHARED_BYTES
    return cuda.get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN


class BlockLauncher:
    """A kernel with its numbers of threads and of bytes of shared memory in a block."""

    def __init__(self, kernel: Any, threads: int, shared_bytes: int) -> None:
        self.kernel = kernel
        self.threads = threads
        self.shared_bytes = shared_bytes
        self.compiled: Any = None

    def launch(self, blocks: int, *arguments: Any) -> None:
        """Start the kernel with one block for each run; returns before it ends."""
        if self.compiled is None:
            self.compiled = self.kernel.specialize(*arguments)
            if self.shared_bytes > PLAIN_SHARED_BYTES and not SIMULATED:
                _allow_shared_bytes(self.compiled, self.shared_bytes)
        with _launching():
            self.compiled[blocks, self.threads, 0, self.shared_bytes](*arguments)

    def occupancy(self) -> dict[str, int]:
        """What a compiled kernel takes of a device: registers and bytes of local memory
        of a thread, bytes of shared memory of a block, and the blocks that a
        multiprocessor runs at a time. Empty in the simulator, and before a launch."""
        if SIMULATED or self.compiled is None:
            return {}
        (overload,) = self.compiled.overloads.values()
        function = overload._codelibrary.get_cufunc()
        blocks = cuda.current_context().get_active_blocks_per_multiprocessor(
            function, self.threads, self.shared_bytes
        )
        return {
            "threads": self.threads,
            "registers": overload.regs_per_thread,
            "local_bytes": overload.local_mem_per_thread,
            "shared_bytes": self.shared_bytes,
            "blocks_per_multiprocessor": blocks,
        }


@contextlib.contextmanager
def _launching() -> Iterator[None]:
    """Without warnings that few blocks do not fill a device, and in the simulator that
    numbers overflow. There, Python switches between threads at once, since they wait for
    each other at each barrier."""
    before = sys.getswitchinterval()
    try:
        if SIMULATED:
            sys.setswitchinterval(1e-6)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*Grid size")
            if SIMULATED:
                warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        sys.setswitchinterval(before)


def _allow_shared_bytes(kernel: Any, count: int) -> None:
    """Allow a kernel to take more shared memory than every kernel may."""
    from numba.cuda.cudadrv.driver import binding, driver  # not in the simulator

    attribute = binding.CUfunction_attribute
    name = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    for overload in kernel.overloads.values():
        function = overload._codelibrary.get_cufunc()
        driver.cuKernelSetAttribute(name, count, function.handle, function.device.id)


class LaunchSizes:
    """Divides many updates into launches of bounded time; the results do not depend on
    the division."""

    def __init__(self) -> None:
        self.updates = 1
        """Number of updates of the next launch."""
        self.last = (0, 0.0)
        """Number of updates of the last launch, and its seconds."""

    def run(self, launch: Callable[[int, int], None], updates: int) -> None:
        """Call launch(begin, count) for portions of a number of updates."""
        begin = 0
        while begin < updates:
            count = min(self.updates, updates - begin)
            started = time.perf_counter()
            launch(begin, count)
            cuda.synchronize()
            seconds = time.perf_counter() - started
            self.last = (count, seconds)
            begin += count
            if count == self.updates or seconds > LAUNCH_SECONDS:
                growth = min(8.0, LAUNCH_SECONDS / max(seconds, 1e-9))
                self.updates = max(1, math.floor(count * growth))


def device_rows(runs: int, columns: int, dtype: Any = np.float32) -> Any:
    """Zeros (run, column) on the device."""
    return cuda.to_device(np.zeros((runs, columns), dtype))


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is not below a number."""
    return -(-number // multiple) * multiple


def odd_stride(length: int) -> int:
    """A stride for rows of a length in shared memory with which neighbouring rows begin
    in different banks."""
    return length | 1


# --------------------------------------------------------------------- device functions


@device_function
def exponential(x):
    """exp x of a float32."""
    return np.float32(math.exp(x))


@device_function
def square_root(x):
    """The square root of a float32."""
    return np.float32(math.sqrt(x))


@device_function
def quotient(number, divisor):
    """number // divisor, both >= 0; shorter than that of signed numbers."""
    return np.int64(np.uint32(number) // np.uint32(divisor))


@device_function
def remainder(number, divisor):
    """number % divisor, both >= 0; shorter than that of signed numbers."""
    return np.int64(np.uint32(number) % np.uint32(divisor))
