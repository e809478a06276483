"""The loss around the recorded weights, beyond its Hessian: learning coefficients,
planes, gradient noise."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
