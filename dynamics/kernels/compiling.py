"""What all compiled kernels share: their place in Numba's cache, and the number of threads they run on."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numba import get_num_threads, set_num_threads


@contextmanager
def numba_threads(count: int) -> Iterator[None]:
    """Kernels called inside run on that many threads."""
    before = get_num_threads()
    set_num_threads(max(1, count))
    try:
        yield
    finally:
        set_num_threads(before)


def source_digest(*paths: str) -> str:
    """Digest of source files. A cached kernel closes over that of all that is compiled into it, which makes
    it part of the cache's key: Numba itself watches only the file in which the kernel stands."""
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()
