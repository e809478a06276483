"""The transformers as pure functions of a dict of arrays, and their parameters."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
