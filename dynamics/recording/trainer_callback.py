"""Recording of a model that `transformers.Trainer` trains."""

import functools
from collections.abc import Callable
from typing import Any

from transformers import Trainer, TrainerCallback

from dynamics.recording.training_callback import TrainingCallback


class TrainerRecording(TrainingCallback, TrainerCallback):
    """A callback of `transformers.Trainer` that records the model with
    `dynamics.record`.

    The loss is that of all forward passes before each update, if the model returns one:
    of the whole batch, also with gradient accumulation. Resuming from a checkpoint of
    the Trainer begins a new recording. After an exception the frames up to the last
    update are in the file; another training replaces it with `overwrite=True`. Of
    several processes, the first one records.

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
        model, scheduler = training["model"], training["lr_scheduler"]
        self.begin(model, training["optimizer"], {"scheduler": scheduler})
        if self.recording is not None:
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
        self.end()

    def end(self, error: BaseException | None = None) -> None:
        """Finish the file; after an error keep the frames up to the last update."""
        if self.recording is not None:
            self._hook.remove()
        super().end(error)


def _report_exceptions(train: Callable[..., Any]) -> Callable[..., Any]:
    """`Trainer.train`, which has no event for exceptions, such that it tells those that
    leave it to its callbacks of this class."""

    @functools.wraps(train)
    def reporting(trainer: Trainer, *arguments: Any, **options: Any) -> Any:
        try:
            return train(trainer, *arguments, **options)
        except BaseException as error:
            for callback in trainer.callback_handler.callbacks:
                if isinstance(callback, TrainerRecording):
                    callback.end(error)
            raise

    return reporting


Trainer.train = _report_exceptions(Trainer.train)
