"""Particles under the pair forces of CA: force kernels, integrator, the system."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
