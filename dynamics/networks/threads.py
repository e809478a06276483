"""The number of threads that torch computes on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
