"""Recording of a model that `transformers.Trainer` trains."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from dynamics.recording.recording import Recording, record


class TrainerRecording(TrainerCallback):
    """A callback of `transformers.Trainer` that records the model with `dynamics.record`.

    The loss is that of the last forward pass before each update, if the model returns one. Resuming from a checkpoint
    of the Trainer begins a new recording.

    Parameters
    ----------
    path : str or Path
        File to write, NAME.nc.
    **options
        Those of `dynamics.record`, such as `every`, `embedding` and `evaluate`.

    Examples
    --------
    ::

        from dynamics.recording.trainer_callback import TrainerRecording

        callback = TrainerRecording("mine.nc", every=10, embedding="embed.weight")
        transformers.Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()
    """

    def __init__(self, path: str | Path, **options: Any) -> None:
        self.path, self.options = path, options
        self.recording: Recording | None = None
        self._loss: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **training: Any) -> None:
        """Begin the recording."""
        model, optimizer = training["model"], training["optimizer"]
        options = {**self.options, "states": {"scheduler": training["lr_scheduler"], **self.options.get("states", {})}}
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        self.recording = record(model, optimizer, self.path, **options).__enter__()
        self._hook = model.register_forward_hook(self._keep_loss)

    def _keep_loss(self, module: Any, arguments: Any, output: Any) -> None:
        loss = output.get("loss") if hasattr(output, "get") else getattr(output, "loss", None)
        if module.training and loss is not None:
            self._loss = loss.detach()

    def on_step_end(self, args: Any, state: Any, control: Any, **training: Any) -> None:
        """Record a frame if one is due."""
        if self.recording is not None:
            self.recording.step(loss=self._loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **training: Any) -> None:
        """Finish the file."""
        if self.recording is not None:
            self._hook.remove()
            self.recording.__exit__(None, None, None)
            self.recording = None
