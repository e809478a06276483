"""Fates of runs by branching: committors, and the growth of small differences."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
