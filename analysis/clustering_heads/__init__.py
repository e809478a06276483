"""VC's clustering heads: invariances, labels, clusters, constructions, formation,
stability."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
