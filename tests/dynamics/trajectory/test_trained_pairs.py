"""The training pairs of a trajectory are those on which its recorded accuracy holds."""

import numpy as np
import pytest
import torch

from dynamics import (
    ModularSettings,
    ParticleSettings,
    TrajectoryError,
    TransformerSettings,
    networks,
    simulate,
    trained_pairs,
)
from dynamics.tasks import modular_sum


@pytest.mark.parametrize(
    "settings",
    [
        ModularSettings(n=7, hidden=8),
        ModularSettings(n=7, hidden=8, split_seed=3),
        ModularSettings(n=7, hidden=8, train_share=0.4),
        TransformerSettings(n=5),
        TransformerSettings(n=5, ordered=False),
    ],
)
def test_the_accuracy_of_the_pairs_is_the_recorded_one(settings):
    trajectory = simulate(settings, runs=3, seed=4, steps=30, progress=False)
    trained = trained_pairs(trajectory)
    network = networks.network_of(trajectory)
    pairs = np.stack([trained["first"].values, trained["second"].values], axis=-1)
    answers = modular_sum(pairs, settings.n)
    held_out = trajectory["split"].values[1]
    for run in range(3):
        weights = networks.weights(trajectory, run, int(trajectory["step"][-1]))
        with torch.no_grad():
            logits = network.logits(weights, torch.from_numpy(pairs)).numpy()
        right = logits.reshape(len(pairs), -1).argmax(-1) == answers
        for split, chosen in (("train", trained[run]), (held_out, ~trained[run])):
            recorded = trajectory["accuracy"].isel(run=run, step=-1).sel(split=split)
            assert abs(right[chosen.values].mean() - float(recorded)) < 1e-6


def test_other_systems_have_no_pairs():
    trajectory = simulate(ParticleSettings(n=5), runs=2, steps=2, progress=False)
    with pytest.raises(TrajectoryError, match="found particles, expected modular or"):
        trained_pairs(trajectory)
