"""What is shown of a run, as data: scenes of panels, their layers, colours and limits.
Nothing here draws."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
