"""Interactive browser page: recorded runs, a live particle simulation and live training
of a network."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
