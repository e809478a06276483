"""Recording of a model that Lightning trains."""

from typing import Any

import lightning

from dynamics.recording.training_callback import TrainingCallback


class LightningRecording(TrainingCallback, lightning.Callback):
    """A callback of `lightning.Trainer` that records the module with `dynamics.record`.

    The loss is the one that `training_step` returns. Resuming from a checkpoint of
    Lightning begins a new recording. After an exception the frames up to the last
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

        from dynamics.recording.lightning_callback import LightningRecording

        callback = LightningRecording("mine.nc", every=10, embedding="embed.weight")
        lightning.Trainer(callbacks=[callback]).fit(module, loader)
    """

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Begin the recording."""
        schedulers = {
            f"scheduler{place}": config.scheduler
            for place, config in enumerate(trainer.lr_scheduler_configs)
        }
        self.begin(pl_module, trainer.optimizers, schedulers)

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Record a frame if one is due."""
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        if loss is not None and self.recording is not None:
            self.losses.append(loss.detach())
        # Lightning has divided it by the number of accumulated mini-batches
        self.record_step(summed=pl_module.automatic_optimization)

    def on_train_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Finish the file."""
        self.end()

    def on_exception(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        exception: BaseException,
    ) -> None:
        """Keep the frames up to the last update."""
        self.end(exception)
