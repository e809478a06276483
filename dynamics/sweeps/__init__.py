"""Sweeps: an ensemble for each combination of settings, computed on this machine or on
a dask cluster."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
