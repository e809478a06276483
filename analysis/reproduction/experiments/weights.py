"""CA figure 6 and appendix B: size of the layers' weights and biases."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs, frame_values
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import paired_ratio
from dynamics.settings import ModularSettings
from dynamics.trajectory.diverged import not_diverged

DECAYS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SIZES = {
    "weight": ("hidden_weight", "mean absolute weight of the linear layer"),
    "bias": ("hidden_bias", "mean absolute bias of the linear layer"),
    "output_weight": ("output_weight", "mean absolute weight of the output layer"),
}


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of each weight decay."""
    settings = [ModularSettings(weight_decay=each) for each in DECAYS]
    return [RequiredRuns(each, params["runs"], params.get("epochs"), every=0) for each in settings]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Mean absolute weights and biases at the end, (weight_decay, run)."""
    rows = []
    for need in ensembles(params):
        trajectory = runner.ensemble(need)
        kept = not_diverged(trajectory)
        sizes = {name: np.abs(frame_values(trajectory, of, -1)[kept]) for name, (of, _) in SIZES.items()}
        rows.append(
            {name: expand_to_runs(each.mean(axis=tuple(range(1, each.ndim))), kept) for name, each in sizes.items()}
        )
    data = {name: (networks.DIMS, np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
            for name, (_, words) in SIZES.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(DECAYS), "run": np.arange(params["runs"])})


FIGURE_6 = Experiment(
    "ca.figure6",
    "mean absolute weights and biases after 2000 epochs at eleven weight decays",
    sizes={Size.QUICK: {"runs": 10}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 1, Size.DEFAULT: 1, Size.FULL: 1},
    measure=measure,
    ensembles=ensembles,
    version=2,
    command="python -m analysis.weights",
)


def weight_size_ratio(evidence: xr.Dataset, name: str) -> Estimate:
    """Size without weight decay over that at weight decay 1, a geometric mean over seeds."""
    return paired_ratio(evidence[name].sel(weight_decay=0.0), evidence[name].sel(weight_decay=1.0), "seeds")


def bias_to_weight_ratio(evidence: xr.Dataset) -> Estimate:
    """By how many times more the biases are limited than the weights, a geometric mean over seeds."""
    bias, weight = (evidence[each].sel(weight_decay=0.0) / evidence[each].sel(weight_decay=1.0)
                    for each in ("bias", "weight"))  # fmt: skip
    return paired_ratio(bias, weight, "seeds")


def size_decay_correlation(evidence: xr.Dataset, name: str) -> Estimate:
    """Spearman's correlation of a size with weight decay."""
    return networks.weight_decay_trend(evidence, name)
