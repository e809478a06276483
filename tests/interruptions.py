"""Simulations that a signal stops."""

from contextlib import contextmanager
from signal import SIGINT, raise_signal

import pytest

from dynamics.errors import Interrupted


@contextmanager
def interrupt_at(system, step, signum=SIGINT):
    """A signal comes when a system of this class is at a step, which need not be
    recorded; what is inside must end."""
    real = system.advance

    def advance(self, state, steps):
        if state.step < step <= state.step + steps:
            raise_signal(signum)
            return real(self, state, step - state.step)
        return real(self, state, steps)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted) as stopped:
        patch.setattr(system, "advance", advance)
        yield stopped
