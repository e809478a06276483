"""Training dynamics: systems, the loop that advances them, and the trajectories that
record them.

The public functions and classes can be imported from this package: `from dynamics
import ParticleSettings, simulate`."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
