"""CA figure 6 and appendix B: size of the layers' weights and biases; CA 5.2: how weights and pair sums lie."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis import weights
from analysis.intervals import mean_interval
from analysis.plates.plate import Ensemble
from analysis.studies import networks
from analysis.studies.ends import alive, frame, whole
from analysis.studies.samples import finite, paired_ratio
from analysis.verification.finding import Finding
from analysis.verification.study import Lab, Params, Size, Study
from dynamics.settings import ModularSettings

DECAYS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SIZES = {
    "weight": ("hidden_weight", "mean absolute weight of the linear layer"),
    "bias": ("hidden_bias", "mean absolute bias of the linear layer"),
    "output_weight": ("output_weight", "mean absolute weight of the output layer"),
    "output_bias": ("output_bias", "mean absolute bias of the output layer"),
}


def ensembles(params: Params) -> Sequence[Ensemble]:
    """Networks of each weight decay."""
    settings = [ModularSettings(weight_decay=each) for each in DECAYS]
    return [Ensemble(each, params["runs"], params.get("epochs"), every=0) for each in settings]


def measure(lab: Lab, params: Params) -> xr.Dataset:
    """Mean absolute weights and biases at the end, (weight_decay, run)."""
    rows = []
    for need in ensembles(params):
        trajectory = lab.ensemble(need)
        kept = alive(trajectory)
        sizes = {name: np.abs(frame(trajectory, of, -1)[kept]) for name, (of, _) in SIZES.items()}
        rows.append({name: whole(each.mean(axis=tuple(range(1, each.ndim))), kept) for name, each in sizes.items()})
    data = {name: (networks.DIMS, np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
            for name, (_, words) in SIZES.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(DECAYS), "run": np.arange(params["runs"])})


FIGURE_6 = Study(
    "ca.figure6",
    "mean absolute weights and biases after 2000 epochs at eleven weight decays",
    sizes={Size.QUICK: {"runs": 10}, Size.DEFAULT: {"runs": 100}, Size.FULL: {"runs": 100}},
    seconds={Size.QUICK: 1, Size.DEFAULT: 1, Size.FULL: 1},
    measure=measure,
    ensembles=ensembles,
    command="python -m analysis.weights",
)


def limited(evidence: xr.Dataset, name: str) -> Finding:
    """Size without weight decay over that at weight decay 1, a geometric mean over seeds."""
    return paired_ratio(evidence[name].sel(weight_decay=0.0), evidence[name].sel(weight_decay=1.0), "seeds")


def biases_more(evidence: xr.Dataset) -> Finding:
    """By how many times more the biases are limited than the weights, a geometric mean over seeds."""
    bias, weight = (evidence[each].sel(weight_decay=0.0) / evidence[each].sel(weight_decay=1.0)
                    for each in ("bias", "weight"))  # fmt: skip
    return paired_ratio(bias, weight, "seeds")


def falls(evidence: xr.Dataset, name: str) -> Finding:
    """Spearman's correlation of a size with weight decay."""
    return networks.trend(evidence, name)


# -------------------------------------------------------------------------------------------------- alignment

MEASURES = {
    "alignment": "rank of the hidden weights' nearness to a pair sum among random directions",
    "boundaries": "rank of the units' boundaries' nearness to a pair sum",
    "rays": "share of the pair sums' variance along their class's line through the origin",
}


def measure_alignment(lab: Lab, params: Params) -> xr.Dataset:
    """How hidden weights and pair sums lie to each other, (weight_decay, run), each measure beside its chance."""
    rows = []
    for need in networks.ensembles(params):
        trajectory = lab.ensemble(need)
        found, kept = weights.measured(trajectory), alive(trajectory)
        rows.append({name: whole(values, kept) for name, values in found.items()})
    names = {"circle": "whether it is a circle by CA algorithm 1"} | MEASURES
    names |= {f"{name}_chance": f"chance of: {words}" for name, words in MEASURES.items()}
    data = {name: (networks.DIMS, np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
            for name, words in names.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(networks.DECAYS), "run": np.arange(params["runs"])})


ALIGNMENT = Study(
    "ca.alignment",
    "whether hidden weights point at pair sums, and whether pair sums of a class lie on a line",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 1000, "every": 0}, Size.FULL: {"runs": 1000, "every": 0}},
    seconds={Size.QUICK: 6, Size.DEFAULT: 58, Size.FULL: 58},
    measure=measure_alignment,
    ensembles=networks.ensembles,
    command="python -m analysis.weights --runs 100",
)


def in_circles(evidence: xr.Dataset, name: str) -> Finding:
    """Mean of a measure over the circles of all weight decays, those of one seed counting as one."""
    found = networks.in_circles(evidence, name)
    chance, circle, _ = networks.flat(evidence, f"{name}_chance")
    level = mean_interval(finite(chance[circle == 1])).value
    return found._replace(note=found.note or f"chance {level:.2f}")
