"""Recording of a model that `transformers.Trainer` trains."""

from typing import Any

from transformers import TrainerCallback

from dynamics.recording.training_callback import TrainingCallback


class TrainerRecording(TrainingCallback, TrainerCallback):
    """A callback of `transformers.Trainer` that records the model with
    `dynamics.record`.

    The loss is that of all forward passes before each update, if the model returns one:
    of the whole batch, also with gradient accumulation. Resuming from a checkpoint of the Trainer begins a new recording.

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

    _is_share: bool = False
    """Whether the model divides its losses by the items of all accumulated
    mini-batches, so that their sum is the loss of the batch."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **training: Any
    ) -> None:
        """Begin the recording."""
        model, optimizer = training["model"], training["optimizer"]
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        self.begin(model, optimizer, {"scheduler": training["lr_scheduler"]})
        self._hook = model.register_forward_hook(self._keep_loss, with_kwargs=True)

    def _keep_loss(self, module: Any, arguments: Any, named: Any, output: Any) -> None:
        loss = (
            output.get("loss")
            if hasattr(output, "get")
            else getattr(output, "loss", None)
        )
        if module.training and loss is not None:
            self.losses.append(loss.detach())
            self._is_share = named.get("num_items_in_batch") is not None

    def on_step_end(self, args: Any, state: Any, control: Any, **training: Any) -> None:
        """Record a frame if one is due."""
        self.record_step(summed=self._is_share)

    def on_train_end(
        self, args: Any, state: Any, control: Any, **training: Any
    ) -> None:
        """Finish the file."""
        self._hook.remove()
        self.finish()
