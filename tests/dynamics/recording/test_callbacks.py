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


@pytest.mark.filterwarnings("ignore")
def test_the_callback_of_transformers(tmp_path):
    torch.manual_seed(0)
    model, path = Model(), tmp_path / "trainer.nc"
    options = transformers.TrainingArguments(
        output_dir=tmp_path / "out",
        max_steps=6,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=0.1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        max_grad_norm=0.01,
        logging_strategy="no",
    )
    data = [{"tokens": token, "labels": token} for token in TOKENS]
    callback = TrainerRecording(path, every=2, embedding="embed.weight")
    transformers.Trainer(
        model, options, train_dataset=data, callbacks=[callback]
    ).train()
    trajectory = check_recording(path, model, [0, 2, 4, 6])
    assert_allclose(
        np.linalg.norm(trajectory["gradient_norm"][0], axis=-1), 0.01, rtol=1e-2
    )


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
    torch.manual_seed(0)
    path = tmp_path / "trainer.nc"
    options = transformers.TrainingArguments(
        output_dir=tmp_path / "out",
        max_steps=4,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulated,
        learning_rate=0.1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=1,
    )
    data = [{"tokens": token, "labels": token} for token in TOKENS]
    callback = TrainerRecording(path, embedding="embed.weight")
    trainer = transformers.Trainer(
        kind(), options, train_dataset=data, callbacks=[callback]
    )
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    recorded = dynamics.open_trajectory(path)["loss"].sel(split="train")
    assert_allclose(recorded[0, 1:], logged, rtol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_the_loss_of_lightning_is_that_of_the_whole_batch(tmp_path):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    module, path = Module(), tmp_path / "lightning.nc"
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[LightningRecording(path, embedding="model.embed.weight")],
        accumulate_grad_batches=2,
    )
    trainer.fit(module, DataLoader(TensorDataset(TOKENS, TOKENS), batch_size=4))
    recorded = dynamics.open_trajectory(path)["loss"].sel(split="train")
    of_batches = np.reshape(module.seen, (-1, 2)).mean(axis=1)
    assert_allclose(recorded[0, 1:], of_batches, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_callback_of_lightning(tmp_path):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    module, path = Module(), tmp_path / "lightning.nc"
    callback = LightningRecording(
        path, embedding="model.embed.weight", layers={"all": "*"}
    )
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        gradient_clip_val=0.01,
    )
    trainer.fit(module, DataLoader(TensorDataset(TOKENS, TOKENS), batch_size=8))
    trajectory = check_recording(path, module.model, list(range(9)))
    assert_allclose(trajectory["loss"][0, 1:, 0], module.seen, rtol=1e-6)
    assert_allclose(trajectory["gradient_norm"][0, 1:, 0], 0.01, rtol=1e-3)
    rates = [0.1] * 4 + [0.09] * 4
    assert_allclose(
        trajectory["update_norm"][0, 1:, 0], 0.01 * np.array(rates), rtol=1e-3
    )
