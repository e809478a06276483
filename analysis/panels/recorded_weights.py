"""Recorded weights of one run of a network, at any of its frames. All values are
dimensionless."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import torch

from analysis.panels.common_panels import RecordedRun
from dynamics.networks.from_trajectory import weights

VALUES_PER_BATCH = 1 << 22


class NetworkPanels:
    """Base class of the panels of both networks."""

    recorded: RecordedRun

    @functools.cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        """Weights of all frames, (frame, ...); of a diverged run, whose weights may be
        huge, in double precision."""
        result = weights(self.recorded.data, run=0)
        return (
            {name: weight.double() for name, weight in result.items()}
            if self.recorded.diverged
            else result
        )

    def weights_at(self, frames: np.ndarray) -> dict[str, torch.Tensor]:
        """Weights at frames, (frame, ...)."""
        indices = torch.from_numpy(np.asarray(frames))
        return {name: weight[indices] for name, weight in self.weights.items()}


def batch_slices(count: int, size: int) -> Iterator[slice]:
    """Slices of `count` items, at least one slice; an item needs `size` values, a batch
    about VALUES_PER_BATCH."""
    batch = max(1, VALUES_PER_BATCH // size)
    return (slice(start, start + batch) for start in range(0, max(1, count), batch))
