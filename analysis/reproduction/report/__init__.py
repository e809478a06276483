"""The report: what was tested, what was found, where it disagrees with the papers."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
