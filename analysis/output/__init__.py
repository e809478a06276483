"""Output files of analyses: NetCDF results and tables, written completely or not at
all."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
