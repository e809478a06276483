"""Compiled code that only the CPU backends need: SIMD arithmetic, gradients,
optimizers."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
