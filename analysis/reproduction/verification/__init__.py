"""Claims, the criteria that judge them, experiments, and the evidence that they
measure."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
