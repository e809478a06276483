"""Analyses of trajectories: array functions, functions of labelled datasets, and
commands."""

from analysis.command_line.interrupts import exit_on_interrupt

exit_on_interrupt()  # before anything else is imported

import dynamics  # noqa: E402, F401, which says if the package is not installed

# isort: split
import lazy_loader as lazy  # noqa: E402

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
