"""Structures of embeddings: circles, grids, Fourier components, shapes, and when they
form."""

import lazy_loader as lazy

from dynamics.named_conditions import register_condition

register_condition("circle", "analysis.structures.circles_and_grids.circle_condition")

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
