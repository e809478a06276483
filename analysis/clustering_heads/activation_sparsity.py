"""How sparse the hidden activations of VC's network are, and whether that goes with success (VC appendices A.2, A.3).

The sparsity at a threshold eps is the share of hidden activations, over all sequences of a split and all hidden units,
that are below eps in absolute value. A sequence that was drawn twice counts twice. The one number of a curve is its
mean over log eps for eps from 1e-3 to 10, the range in which the paper finds successful runs less sparse. A run is
successful if its test accuracy is above .9. All values are dimensionless.
"""

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.statistics.ranks import rank_biserial_profile
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import check_variable_recorded, clustering_head_of, weights
from dynamics.networks.parameters import Weights
from dynamics.randomness import random_stream
from dynamics.settings import SettingsError
from dynamics.tasks import distinct_sequences
from dynamics.trajectory.diverged import not_diverged

SUCCESSFUL_ACCURACY = 0.9
"""Test accuracy above which a run counts as successful (VC appendix A.2)."""

SPARSITY_THRESHOLDS = np.logspace(-5, 2, 141)
"""eps, twenty in a decade."""

SPARSITY_RANGE = (1e-3, 10.0)
"""Where VC finds successful models to be less sparse."""

SPARSITY_SPLITS = ("train", "test")

_BATCH_BYTES = 64 << 20


# --------------------------------------------------------------------------------------------------- arrays


def hidden_activations(network: ClusteringHead, found: Weights, tokens: torch.Tensor) -> torch.Tensor:
    """Outputs of the hidden units, GELU(w_i . N(xi) + b_i), for sequences (..., sequence, position):
    (..., sequence, hidden)."""
    preactivation = network.normalise(network.sequence_embedding(found, tokens)) @ found["receptor"].mT
    if network.settings.receptor_biases:
        preactivation = preactivation + found["receptor_bias"][..., None, :]
    activate = torch.nn.functional.gelu if network.settings.activation == "gelu" else torch.relu
    return activate(preactivation)


def count_below_thresholds(
    values: np.ndarray, often: np.ndarray, thresholds: np.ndarray = SPARSITY_THRESHOLDS
) -> np.ndarray:
    """How many values (sequence, hidden) are below each threshold (eps,), ascending, in absolute value: (eps,).

    often (sequence,): how often each sequence counts. Raises ValueError.
    """
    values, often = np.asarray(values), np.asarray(often)
    if values.ndim != 2 or often.shape != values.shape[:1] or not (np.diff(thresholds) > 0).all():
        found = f"{values.shape}, {often.shape} and thresholds that are"
        raise ValueError(f"values: found shapes {found} not ascending, expected (sequence, hidden), (sequence,)")
    passed = np.searchsorted(thresholds, np.abs(values), side="right")  # thresholds that do not exceed the value
    weight = np.broadcast_to(often[:, None], values.shape)
    return np.bincount(passed.ravel(), weight.ravel(), len(thresholds) + 1)[:-1].cumsum()


def mean_sparsity(sparsity: np.ndarray, thresholds: np.ndarray = SPARSITY_THRESHOLDS) -> np.ndarray:
    """The mean of a curve over log eps in the range where VC sees a difference: (..., eps) -> (...)."""
    inside = (thresholds > SPARSITY_RANGE[0] * (1 - 1e-9)) & (thresholds < SPARSITY_RANGE[1] * (1 + 1e-9))
    place = np.log(thresholds[inside])
    return np.trapezoid(sparsity[..., inside], place, axis=-1) / (place[-1] - place[0])


# ------------------------------------------------------------------------------------------------- labelled


def network_and_step(trajectory: xr.Dataset, step: int | None = None) -> tuple[ClusteringHead, int]:
    """The network whose activations a trajectory has, and the recorded step, the last by default.

    Raises TrajectoryError, SettingsError.
    """
    network = clustering_head_of(trajectory)
    for name in network.variables:
        check_variable_recorded(trajectory, name)
    recorded = trajectory["step"].values
    if step is None:
        return network, int(recorded[-1])
    if step not in recorded:
        beside = [*recorded[recorded < step][-1:], *recorded[recorded > step][:1]]
        nearest = " and ".join(str(each) for each in beside)
        raise SettingsError("step", step, f"a recorded step, nearest {'are' if len(beside) > 1 else 'is'} {nearest}")
    return network, step


def measure_sparsity(trajectory: xr.Dataset, step: int | None = None) -> xr.Dataset:
    """The sparsity of each run at a recorded step, the last by default.

    `sparsity` (split, run, eps), its mean `mean_sparsity` (split, run), `test_accuracy` (run), `success` (run), 1 or
    0; NaN in runs that had diverged before. Raises TrajectoryError, SettingsError.
    """
    network, step = network_and_step(trajectory, step)
    alive = not_diverged(trajectory, step)
    shares = np.full((len(SPARSITY_SPLITS), trajectory.sizes["run"], len(SPARSITY_THRESHOLDS)), np.nan)
    held = {name: weight.double() for name, weight in weights(trajectory, step=step).items()}
    for run in tqdm(np.flatnonzero(alive), desc="activations", unit="run", disable=None, leave=False):
        of_run = {name: weight[run] for name, weight in held.items()}
        for place, split in enumerate(SPARSITY_SPLITS):
            shares[place, run] = _shares(network, of_run, int(trajectory["seed"][run]), split)
    accuracy = trajectory["accuracy"].sel(step=step, split="test").values.astype(np.float64)
    return xr.Dataset(
        {
            "sparsity": (("split", "run", "eps"), shares, _named("share of activations below eps")),
            "mean_sparsity": (("split", "run"), mean_sparsity(shares), _named("mean over log eps, 1e-3 to 10")),
            "test_accuracy": ("run", np.where(alive, accuracy, np.nan), _named("test accuracy")),
            "success": (
                "run", np.where(alive, accuracy > SUCCESSFUL_ACCURACY, np.nan),
                    _named(f"test accuracy above {SUCCESSFUL_ACCURACY:g}"),
            ),
        },
        {
            "split": list(SPARSITY_SPLITS),
            "eps": ("eps", SPARSITY_THRESHOLDS, _named("threshold")),
            "run": np.arange(len(alive)),
            "seed": ("run", trajectory["seed"].values),
            "step": step,
        },
    )  # fmt: skip


def compare_successes(found: xr.Dataset) -> xr.Dataset:
    """The same with `effect` and `p_value` (split, eps): successful runs against the others at every threshold.

    effect: rank-biserial, negative where successful runs are less sparse; p_value: for all thresholds at once.
    """
    success = found["success"].values
    known = np.isfinite(success)
    profiles = [
        rank_biserial_profile(
            found["sparsity"].sel(split=split).values[known], success[known] == 1, random_stream(0, f"sparsity/{split}")
        )
        for split in SPARSITY_SPLITS
    ]
    dims = ("split", "eps")
    return found.assign(
        effect=(dims, np.stack([each.effect for each in profiles]), _named("rank-biserial, success against failure")),
        p_value=(dims, np.stack([each.p_value for each in profiles]), _named("p-value, all thresholds at once")),
    )


# ---------------------------------------------------------------------------------------------------- parts


@torch.no_grad()
def _shares(network: ClusteringHead, found: Weights, seed: int, split: str) -> np.ndarray:
    """The sparsity of one run over a split it was given by its seed: (eps,)."""
    s = network.settings
    tokens, often = distinct_sequences(s, seed, split)
    at_once = max(1, _BATCH_BYTES // (8 * (3 * s.length * s.rows + 4 * s.hidden)))
    total = np.zeros(len(SPARSITY_THRESHOLDS))
    for start in range(0, len(tokens), at_once):
        some = slice(start, start + at_once)
        values = hidden_activations(network, found, torch.from_numpy(tokens[some]))
        total += count_below_thresholds(values.numpy(), often[some])
    return total / (s.data * s.hidden)


def _named(long_name: str) -> dict[str, str]:
    return {"long_name": long_name, "units": "1"}
