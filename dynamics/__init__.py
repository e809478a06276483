"""Training dynamics: systems, the loop that advances them, and the trajectories that
record them.

The public functions and classes can be imported from this package: `from dynamics
import ParticleSettings, simulate`."""

import sys

try:
    import lazy_loader as lazy
except ModuleNotFoundError:
    message = (
        f"training-dynamics is not installed for {sys.executable}; in a copy of the"
        " repository `make demo` sets it up for .venv/bin/python"
    )
    if getattr(sys, "argv", [])[:1] == ["-m"]:  # a command
        sys.exit(f"error: {message}")
    raise ImportError(message) from None

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
