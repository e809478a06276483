"""The part that callbacks of training libraries share: a recording that begins and ends
with the training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dynamics.recording.metrics import Measured
from dynamics.recording.new_recording import record
from dynamics.recording.processes import is_first_process
from dynamics.recording.recording import Recording


class TrainingCallback:
    """Records a model between the beginning and the end of a training, with the options
    of `dynamics.record`."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path = Path(path).absolute()
        self.options = options
        self.recording: Recording | None = None
        self.losses: list[torch.Tensor] = []
        """Losses of the mini-batches since the last update."""

    def begin(
        self,
        model: torch.nn.Module,
        optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        schedulers: Mapping[str, Any],
    ) -> None:
        """Begin the recording; its restart states contain the schedulers. A recording
        that has not ended, of a training that the library begins again, is replaced."""
        again = self.recording is not None
        self.end(RuntimeError())
        states = {**schedulers, **self.options.get("states", {})}
        options = {**self.options, "states": states}
        if again:
            options["overwrite"] = True
        recording = record(model, optimizers, self.path, **options)
        if is_first_process():
            self.recording = recording.__enter__()

    def record_step(self, summed: bool = False) -> None:
        """Record a frame if one is due. Its loss is that of all mini-batches whose
        gradients were accumulated: their mean, or with `summed` their sum."""
        if self.recording is None:
            return
        loss: Measured = None
        if self.losses:
            total = torch.stack(self.losses).sum()
            loss = total if summed else total / len(self.losses)
        before = self.recording.norms.base
        self.recording.step(loss=loss)
        if self.recording.norms.base > before:
            self.losses.clear()

    def end(self, error: BaseException | None = None) -> None:
        """Finish the file; after an error keep the frames up to the last update."""
        recording = self.recording
        self.recording = None
        self.losses.clear()
        if recording is not None:
            kind = None if error is None else type(error)
            recording.__exit__(kind, error, None)
