"""Callbacks for transformers.Trainer and Lightning, with the real libraries."""

import logging

import lightning
import numpy as np
import pytest
import torch
import transformers
from numpy.testing import assert_allclose, assert_array_equal
from torch.utils.data import DataLoader, TensorDataset

import dynamics
from dynamics.recording.lightning_callback import LightningRecording
from dynamics.recording.trainer_callback import TrainerRecording

TOKENS = torch.arange(32) % 5


class Model(torch.nn.Module):
    """Five tokens; returns its loss as the models of transformers do."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = torch.nn.Embedding(5, 2), torch.nn.Linear(2, 5)

    def forward(self, tokens, labels):
        logits = self.out(self.embed(tokens))
        return {
            "loss": torch.nn.functional.cross_entropy(logits, labels),
            "logits": logits,
        }


class Module(lightning.LightningModule):
    """The same model for Lightning, whose updates are made in a closure."""

    def __init__(self):
        super().__init__()
        self.model, self.seen = Model(), []

    def training_step(self, batch, index):
        loss = self.model(*batch)["loss"]
        self.seen.append(float(loss.detach()))
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


def check_recording(path, model, steps):
    trajectory = dynamics.open_trajectory(path)
    assert trajectory["step"].values.tolist() == steps
    assert_array_equal(trajectory["embedding"][0, -1], model.embed.weight.detach())
    assert (trajectory["gradient_norm"] > 0).all()
    return trajectory


def fit_transformers(kind, path, every=1, **options):
    """The Trainer of transformers after it has trained a model with the callback."""
    torch.manual_seed(0)
    arguments = transformers.TrainingArguments(
        output_dir=path.parent / "out",
        learning_rate=0.1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        **options,
    )
    trainer = transformers.Trainer(
        kind(),
        arguments,
        train_dataset=[{"tokens": token, "labels": token} for token in TOKENS],
        callbacks=[TrainerRecording(path, every=every, embedding="embed.weight")],
    )
    trainer.train()
    return trainer


@pytest.mark.filterwarnings("ignore")
def test_the_callback_of_transformers(tmp_path):
    trainer = fit_transformers(
        Model,
        tmp_path / "trainer.nc",
        every=2,
        max_steps=6,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        max_grad_norm=0.01,
        logging_strategy="no",
    )
    trajectory = check_recording(tmp_path / "trainer.nc", trainer.model, [0, 2, 4, 6])
    norms = np.linalg.norm(trajectory["gradient_norm"][0], axis=-1)
    assert_allclose(norms, 0.01, rtol=1e-2)


class LossOfBatch(Model):
    """Divides its loss by the items of the whole batch, as models of transformers do
    that accept their number."""

    def forward(self, tokens, labels, num_items_in_batch=None, **rest):
        output = super().forward(tokens, labels)
        if num_items_in_batch is not None:
            output["loss"] = output["loss"] * len(labels) / num_items_in_batch
        return output


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accumulated", [1, 2, 4])
@pytest.mark.parametrize("kind", [Model, LossOfBatch])
def test_the_loss_of_transformers_is_that_of_the_whole_batch(
    tmp_path, kind, accumulated
):
    trainer = fit_transformers(
        kind,
        tmp_path / "trainer.nc",
        max_steps=4,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulated,
        logging_steps=1,
    )
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    recorded = dynamics.open_trajectory("trainer.nc")["loss"]
    assert_allclose(recorded.sel(split="train")[0, 1:], logged, rtol=1e-3)


def fit_lightning(path, batch_size, layers=None, **options):
    """The module of Lightning after it has been trained with the callback."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[
            LightningRecording(path, embedding="model.embed.weight", layers=layers)
        ],
        **options,
    )
    data = TensorDataset(TOKENS, TOKENS)
    trainer.fit(module, DataLoader(data, batch_size=batch_size))
    return module


@pytest.mark.filterwarnings("ignore")
def test_the_loss_of_lightning_is_that_of_the_whole_batch(tmp_path):
    path = tmp_path / "lightning.nc"
    module = fit_lightning(path, 4, max_epochs=1, accumulate_grad_batches=2)
    recorded = dynamics.open_trajectory(path)["loss"].sel(split="train")
    of_batches = np.reshape(module.seen, (-1, 2)).mean(axis=1)
    assert_allclose(recorded[0, 1:], of_batches, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_callback_of_lightning(tmp_path):
    path, layers = tmp_path / "lightning.nc", {"all": "*"}
    module = fit_lightning(path, 8, layers, max_epochs=2, gradient_clip_val=0.01)
    trajectory = check_recording(path, module.model, list(range(9)))
    assert_allclose(trajectory["loss"][0, 1:, 0], module.seen, rtol=1e-6)
    assert_allclose(trajectory["gradient_norm"][0, 1:, 0], 0.01, rtol=1e-3)
    rates = np.repeat([0.1, 0.09], 4)
    assert_allclose(trajectory["update_norm"][0, 1:, 0], 0.01 * rates, rtol=1e-3)
