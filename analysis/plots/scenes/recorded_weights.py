"""The recorded weights of one run of a network, at any of its frames. All values are dimensionless."""

import functools
from collections.abc import Iterator

import numpy as np
import torch

from analysis.plots.scenes.common_panels import RecordedRun
from dynamics.networks.from_trajectory import weights

VALUES_PER_BATCH = 1 << 22


class NetworkPanels:
    """What the panels of networks have in common."""

    recorded: RecordedRun

    @functools.cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        """(frame, ...), in double precision where they may be huge."""
        found = weights(self.recorded.data, run=0)
        return {name: weight.double() for name, weight in found.items()} if self.recorded.diverged else found

    def at(self, frames: np.ndarray) -> dict[str, torch.Tensor]:
        """The weights at frames, (frame, ...)."""
        chosen = torch.from_numpy(np.asarray(frames))
        return {name: weight[chosen] for name, weight in self.weights.items()}


def batch_slices(count: int, size: int) -> Iterator[slice]:
    """Which of so many frames to do at once, for each of which there are `size` values; one portion at least."""
    at_once = max(1, VALUES_PER_BATCH // size)
    return (slice(start, start + at_once) for start in range(0, max(1, count), at_once))
