"""CA section 5.2: how the hidden weights lie to the pair sums, and the pair sums of a class to the origin."""

import numpy as np
import xarray as xr

from analysis.forces import hidden_weights
from analysis.forces.alignment import COSINE_TOLERANCE, DEAD_NORM_FRACTION
from analysis.reproduction.musat2024 import networks
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import expand_to_runs
from analysis.reproduction.verification.samples import finite_values
from analysis.statistics.intervals import mean_interval
from dynamics.trajectory.diverged import not_diverged

MEASURES = {
    "alignment": "rank of the hidden weights' nearness to a pair sum among random directions",
    "rays": "share of the pair sums' variance along their class's line through the origin",
}


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """How hidden weights and pair sums lie to each other, (weight_decay, run), each measure beside its chance."""
    rows = []
    for need in networks.ensembles(params):
        trajectory = runner.ensemble(need)
        found, kept = hidden_weights.measure_weights(trajectory), not_diverged(trajectory)
        rows.append({name: expand_to_runs(values, kept) for name, values in found.items()})
    names = {"circle": "whether it is a circle by CA algorithm 1"} | MEASURES
    names |= {f"{name}_chance": f"chance of: {words}" for name, words in MEASURES.items()}
    data = {name: (networks.DIMS, np.stack([row[name] for row in rows]), {"long_name": words, "units": "1"})
            for name, words in names.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(networks.DECAYS), "run": np.arange(params["runs"])})


ALIGNMENT = Experiment(
    "ca.alignment",
    "whether hidden weights point at pair sums, and whether pair sums of a class lie on a line",
    sizes={Size.QUICK: {"runs": 100}, Size.DEFAULT: {"runs": 1000, "every": 0}, Size.FULL: {"runs": 1000, "every": 0}},
    seconds={Size.QUICK: 6, Size.DEFAULT: 58, Size.FULL: 58},
    measure=measure,
    ensembles=networks.ensembles,
    depends={"dead": DEAD_NORM_FRACTION, "equal": COSINE_TOLERANCE},
    version=2,
    command="python -m analysis.weights --runs 100",
)


def circle_alignment(evidence: xr.Dataset, name: str) -> Estimate:
    """Mean of a measure over the circles of all weight decays, those of one seed counting as one."""
    found = networks.mean_in_circles(evidence, name)
    chance, circle, _ = networks.flatten_over_decays(evidence, f"{name}_chance")
    level = mean_interval(finite_values(chance[circle == 1])).value
    return found._replace(note=found.note or f"chance {level:.2f}")
