"""Times by which scenes side by side are synchronised.

Scenes with the same unit of time have the times of their clocks. Others, such as a
network counted in epochs beside particles counted in steps, have the fraction of the
run that has passed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.panels.scene import Scene


def compares_by_run_fraction(scenes: Sequence[Scene]) -> bool:
    """Whether scenes differ in their unit of time, so that they are synchronised by the
    fraction of the run."""
    return len({scene.unit for scene in scenes}) > 1


def frame_times(scenes: Sequence[Scene]) -> list[np.ndarray]:
    """Time of each recorded frame of each scene, (frame,), by which they are
    synchronised."""
    clocks = [np.asarray(scene.clock, float) for scene in scenes]
    if not compares_by_run_fraction(scenes):
        return clocks
    return [(clock - clock[0]) / max(clock[-1] - clock[0], 1e-300) for clock in clocks]
