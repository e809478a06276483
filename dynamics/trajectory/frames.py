"""Indices of recorded frames: evenly spaced, denser at the start, at a stride, at given
steps."""

from collections.abc import Sequence

import numpy as np

from dynamics.settings import SettingsError


def evenly_spaced_frames(count: int, most: int) -> np.ndarray:
    """Indices of at most `most` of `count` frames, evenly spaced, with the first and
    the last.

    >>> evenly_spaced_frames(11, 6)
    array([ 0,  2,  4,  6,  8, 10])
    """
    spaced = np.linspace(0, count - 1, min(count, most))
    return np.unique(spaced.round().astype(np.int64))


def early_frames(count: int, most: int) -> np.ndarray:
    """Indices of at most `most` (2 or more) of `count` frames, denser at the start,
    with the first and the last.

    >>> early_frames(101, 5)
    array([  0,   2,   9,  31, 100])
    """
    if count <= most:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, most).round().astype(np.int64)) - 1


def strided_frames(count: int, every: int) -> np.ndarray:
    """Indices of every `every`-th of `count` frames, and of the last.

    >>> strided_frames(9, 5)
    array([0, 5, 8])
    """
    return np.unique(np.append(np.arange(0, count, every), count - 1))


def frames_at(recorded: np.ndarray, steps: Sequence[int]) -> np.ndarray:
    """Indices of given steps among the recorded ones, in increasing order. Raises
    SettingsError for a step that was not recorded."""
    for step in steps:
        if step not in recorded:
            before, after = recorded[recorded < step], recorded[recorded > step]
            nearest = [*before[-1:], *after[:1]]
            verb = "are" if len(nearest) > 1 else "is"
            allowed = f"a recorded step, nearest {verb} " + " and ".join(
                map(str, nearest)
            )
            raise SettingsError("at", step, allowed)
    return np.searchsorted(recorded, np.unique(steps))
