"""The number of threads that torch computes on."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@functools.cache
def single_thread_after_fork() -> None:
    """Let torch run on one thread in processes that are forked from this one: GNU's
    OpenMP, on which torch runs, waits there for threads that do not exist."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Run torch on one thread inside a `with` block: faster for tensors too small to
    divide among threads.

    Examples
    --------
    >>> import torch
    >>> from dynamics.networks import single_torch_thread
    >>> with single_torch_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
