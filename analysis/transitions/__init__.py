"""Plateaus, drops and spikes of the loss, their causes, and interventions."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
