"""The part that callbacks of training libraries share: a recording that begins and ends
with the training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dynamics.recording.recording import Measured, Recording, record


class TrainingCallback:
    """Records a model between the beginning and the end of a training, with the options
    of `dynamics.record`."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path, self.options = path, options
        self.recording: Recording | None = None
        self.losses: list[torch.Tensor] = []
        """Losses of the mini-batches since the last update."""
        self._updates = 0

    def begin(
        self,
        model: torch.nn.Module,
        optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        schedulers: Mapping[str, Any],
    ) -> None:
        """Begin the recording; its restart states contain the schedulers."""
        options = {
            **self.options,
            "states": {**schedulers, **self.options.get("states", {})},
        }
        self.recording = record(model, optimizers, self.path, **options).__enter__()

    def record_step(self, summed: bool = False) -> None:
        """Record a frame if one is due. Its loss is that of all mini-batches whose
        gradients were accumulated: their mean, or with `summed` their sum."""
        if self.recording is None:
            return
        loss: Measured = None
        if self.losses:
            total = torch.stack(self.losses).sum()
            loss = total if summed else total / len(self.losses)
        self.recording.step(loss=loss)
        if self.recording.norms.updates > self._updates:
            self._updates = self.recording.norms.updates
            self.losses.clear()

    def finish(self) -> None:
        """Finish the file."""
        if self.recording is not None:
            self.recording.__exit__(None, None, None)
            self.recording = None
