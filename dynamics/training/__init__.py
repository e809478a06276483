"""Ensembles of networks in training: backends, mini-batches, the two training
systems."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
