"""Forces on embeddings: the force audit, alignment of weights and pair sums,
directions."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
