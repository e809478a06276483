"""The linearised flow: Hessians, force Jacobians, eigenmodes, distance to the
normalisation's singularity."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
