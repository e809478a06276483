from .compiling import numba_threads as numba_threads
