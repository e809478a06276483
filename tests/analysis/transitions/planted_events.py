"""Losses with planted drops and spikes.

The model, fixed before any rule was tried on it: T frames, 200 to 2000; a first level
of 1, in any unit; up to 3 drops, each a logistic fall that takes 0.2% to 2% of the
frames from its tenth to its ninth tenth and loses 15% to 40% of the first level;
between them the loss sinks in a straight line, by 5% of the first level over the whole
series; up to 6 spikes that rise within a frame by 25% to 200% of the first level and
fall off exponentially, by a factor e in 0.3 to 2 frames or up to 0.2% of the series,
whichever is more. Events keep 5% of the series, and 16 frames, away from each other and
from both ends. Noise is white and Gaussian: relative to the loss with a standard
deviation of up to 3%, and of 0.2% of the first level throughout."""

from typing import NamedTuple

import numpy as np


class Planted(NamedTuple):
    """A series and where its events are."""

    series: np.ndarray  # (frame,)
    drops: np.ndarray  # middles, ascending, in frames
    spikes: np.ndarray  # peaks


def planted(
    generator: np.random.Generator, drops: int | None = None, spikes: int | None = None
) -> Planted:
    """A series from the model, with so many events or any number."""
    drops = int(generator.integers(0, 4)) if drops is None else drops
    spikes = int(generator.integers(0, 7)) if spikes is None else spikes
    frames = int(generator.integers(200, 2001))
    drops, spikes = _fitting(drops, spikes, frames)
    places = _apart(generator, drops + spikes, frames, max(16, 0.05 * frames))
    kinds = generator.permutation(np.arange(drops + spikes) < drops)
    time, clean = np.arange(frames), 1 - 0.05 * np.arange(frames) / frames
    lost = generator.uniform(0.15, 0.4, drops)
    lost *= min(1.0, 0.9 / max(lost.sum(), 1e-9)) if lost.sum() > 0.9 else 1
    for place, depth in zip(places[kinds], lost, strict=True):
        width = generator.uniform(0.002, 0.02) * frames / (2 * np.log(9))
        clean -= depth / (1 + np.exp(np.clip(-(time - place) / width, -700, 700)))
    peaks = np.round(places[~kinds])
    for peak in peaks:
        after = time - peak
        fade = generator.uniform(0.3, max(2.0, 0.002 * frames))
        clean += np.where(
            after >= 0,
            generator.uniform(0.25, 2.0) * np.exp(-np.maximum(after, 0) / fade),
            0,
        )
    relative = generator.uniform(0, 0.03)
    noisy = clean * (
        1 + relative * generator.standard_normal(frames)
    ) + 0.002 * generator.standard_normal(frames)
    return Planted(noisy * 10 ** generator.uniform(-6, 6), places[kinds], peaks)


def _fitting(drops: int, spikes: int, frames: int) -> tuple[int, int]:
    """As many events as leave room between them."""
    room = int(0.8 * frames / max(16, 0.05 * frames)) - 1
    while drops + spikes > room:
        drops, spikes = (drops, spikes - 1) if spikes else (drops - 1, spikes)
    return drops, spikes


def _apart(
    generator: np.random.Generator, count: int, frames: int, gap: float
) -> np.ndarray:
    """Ascending places that keep a gap from each other and from both ends."""
    return np.sort(
        generator.uniform(0, frames - 1 - (count + 1) * gap, count)
    ) + gap * (1 + np.arange(count))


def matches(result: np.ndarray, true: np.ndarray, within: float) -> int:
    """How many true places have a found one within so many frames, each used once."""
    left, count = sorted(result), 0
    for place in true:
        near = [item for item in left if abs(item - place) <= within]
        if near:
            left.remove(min(near, key=lambda each: abs(each - place)))
            count += 1
    return count
