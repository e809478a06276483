"""Musat's paper (CA): one module per section or experiment, with its experiment,
measures and claims."""
