"""Training dynamics: systems, the loop that advances them, and the trajectories that record them.

What a script or notebook needs can be imported from here: `from dynamics import ParticleSettings, simulate`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
