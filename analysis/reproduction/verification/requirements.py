"""Packages that the experiments need."""

from importlib.util import find_spec

from dynamics.errors import MissingPackage


def check_torch() -> None:
    """Check that torch is installed, which experiments on networks need. Raises
    MissingPackage."""
    if find_spec("torch") is None:
        raise MissingPackage(
            "claims of networks need torch, which comes with: pip install"
            " 'training-dynamics[train]'"
        )
