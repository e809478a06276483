"""CA sections 5.1 and 7: whether embeddings still move in the second half of training."""

import numpy as np
import xarray as xr

from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs, frame_values
from analysis.reproduction.verification.samples import estimate_mean, paired_ratio
from analysis.structures.procrustes import procrustes_distance
from dynamics.trajectory.diverged import not_diverged


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """How much each embedding still moves in the second half of training, (weight_decay, run)."""
    rows = [_row(runner.ensemble(need)) for need in networks.ensembles(params)]
    data = {name: (networks.DIMS, np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
            for name, words in MOVEMENT.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(networks.DECAYS), "run": np.arange(params["runs"])})


MOVEMENT = {
    "second_half": "Procrustes distance of the embedding at the end from that half-way",
    "slowing": "mean size of an update of the embedding in the last tenth over that in the first tenth of training",
    "rate": "mean size of an update of the embedding over its size, in the last tenth of training",
}


def _row(trajectory: xr.Dataset) -> dict[str, np.ndarray]:
    """Of one weight decay, each (run,)."""
    kept = not_diverged(trajectory)
    steps = trajectory["step"].values
    end = frame_values(trajectory, "embedding", -1)[kept]
    middle = int(np.abs(steps - steps[-1] / 2).argmin())
    half = frame_values(trajectory, "embedding", middle)[kept]
    updates = trajectory["update_norm"].sel(layer="embedding").transpose("run", "step").values[kept]
    early = updates[:, (steps > 0) & (steps <= steps[-1] / 10)].mean(axis=1)
    late = updates[:, steps > steps[-1] * 9 / 10].mean(axis=1)
    found = {
        "second_half": procrustes_distance(half, end),
        "slowing": late / early,
        "rate": late / np.linalg.norm(end, axis=(-2, -1)),
    }
    return {name: expand_to_runs(values, kept) for name, values in found.items()}


HALT = Experiment(
    "ca.halt",
    "whether embeddings still move in the second half of training, with and without weight decay",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 1, Size.DEFAULT: 1, Size.FULL: 1},
    measure=measure,
    ensembles=networks.ensembles,
    version=2,
    command="python -m analysis.formation",
)


def mean_movement(evidence: xr.Dataset, name: str, decay: float) -> Estimate:
    """Mean of one of the movements at a weight decay."""
    return estimate_mean(evidence[name].sel(weight_decay=decay), "networks")


def movement_ratio(evidence: xr.Dataset, name: str) -> Estimate:
    """A movement without weight decay over that at weight decay 1, a geometric mean over seeds."""
    return paired_ratio(evidence[name].sel(weight_decay=0.0), evidence[name].sel(weight_decay=1.0), "seeds")
