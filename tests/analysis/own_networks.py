"""Networks of the package as models from outside, and their model files."""

import dataclasses
import json

import numpy as np
import xarray as xr

from dynamics import ModelFile, TransformerSettings
from dynamics.networks.from_trajectory import network_of
from dynamics.settings import RecordedSettings
from dynamics.tasks import all_pairs, operation_pairs, operation_splits, training_pairs


def as_recorded(trajectory: xr.Dataset) -> xr.Dataset:
    """A trajectory of a network as one of checkpoints from outside."""
    names = network_of(trajectory).variables
    variables = trajectory[[*names, "status", "last_step"]]
    result = variables.rename({name: f"parameter.{name}" for name in names})
    settings = RecordedSettings(modulus=trajectory.attrs["modulus"])
    config = json.dumps(dataclasses.asdict(settings))
    return result.assign_attrs(
        trajectory.attrs, system=settings.system, config_json=config
    )


def with_recorded_pairs(trajectory: xr.Dataset) -> xr.Dataset:
    """`as_recorded` with the training pairs of each run as a variable."""
    recorded, runs = as_recorded(trajectory), range(trajectory.sizes["run"])
    pairs = np.stack([model_of(trajectory, run).training_pairs() for run in runs])
    frames = np.repeat(pairs[:, None], recorded.sizes["step"], axis=1)
    return recorded.assign(training_pairs=(("run", "step", "pair", "both"), frames))


def model_of(trajectory: xr.Dataset, run: int = 0, **changes) -> ModelFile:
    """The functions of a network, with the training pairs of a run."""
    network = network_of(trajectory)
    settings, seeds = network.settings, trajectory["seed"].values
    n = settings.n
    if isinstance(settings, TransformerSettings):
        pairs = operation_pairs(settings)[operation_splits(settings, seeds)[0][run]]
    else:
        pairs = all_pairs(n)[training_pairs(n, settings.train_pairs, seeds)[run]]
    functions = {
        "logits": network.logits,
        "embedding": lambda parameters: parameters["embedding"],
        "training_pairs": lambda: pairs,
        "modulus": n,
    }
    return ModelFile(**functions | changes)
