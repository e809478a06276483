"""VC section 4.3 and figure 12: what a step does to x / |x| near the origin, on random points."""

import numpy as np
import torch
import xarray as xr

from analysis.reproduction.verification.estimate import Estimate, as_percentage, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.statistics.intervals import binomial_interval
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.randomness import random_stream
from dynamics.settings import SparseSettings

DIMS = (2, 3, 8)

SAME = 1e-6
"""Largest change of a vector of length 1 that is rounding."""

NEAR, SMALL, LARGE = 0.05, 0.01, 10.0
"""Lengths that are near the origin; modifications that are small; how many times larger a change is out of proportion.
An embedding has length 1 or so."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Of random points x the change of f(x) = x / |x| by a step eta along x / |x| towards the origin, and by a random
    modification of length `small`: (case,)."""
    parts = []
    for dim in DIMS:
        generator, cases = random_stream(dim, "normalisation"), params["cases"]
        normalise = ClusteringHead(SparseSettings(dim=dim, norm="unit")).normalise
        direction, other = (_unit(generator.standard_normal((cases, dim))) for _ in range(2))
        length, eta, small = np.power(10.0, [generator.uniform(*ends, cases) for ends in ((-4, 0), (-4, 0), (-4, -2))])
        x = torch.from_numpy(direction * length[:, None])
        f = normalise(x).numpy()
        stepped = normalise(x - torch.from_numpy(eta)[:, None] * normalise(x)).numpy()
        modified = normalise(x + torch.from_numpy(other * small[:, None])).numpy()
        parts.append(
            xr.Dataset(
                {
                    "dim": ("case", np.full(cases, dim), {"long_name": "axes"}),
                    "length": ("case", length, {"long_name": "|x|", "units": "1"}),
                    "eta": ("case", eta, {"long_name": "step towards the origin", "units": "1"}),
                    "changed": ("case", _size(stepped - f), {"long_name": "change of f by the step", "units": "1"}),
                    "turned": ("case", _size(stepped + f), {"long_name": "distance of f then from -f", "units": "1"}),
                    "small": ("case", small, {"long_name": "length of a random modification", "units": "1"}),
                    "moved": ("case", _size(modified - f), {"long_name": "change of f by it", "units": "1"}),
                }
            )
        )
    return xr.concat(parts, "case")


def _unit(x: np.ndarray) -> np.ndarray:
    return x / _size(x)[:, None]


def _size(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=1)


NORMALISATION = Experiment(
    "vc.normalisation",
    "what steps and small modifications do to x / |x| near the origin",
    sizes={size: {"cases": 1000} for size in Size},
    seconds=dict.fromkeys(Size, 1),
    measure=measure,
    depends={"dims": DIMS},
)


# ----------------------------------------------------------------------------------------------- what was found


def unchanged_below_length(evidence: xr.Dataset) -> Estimate:
    """Percentage of points for which f stays the same if the step is shorter than |x|, and only then."""
    same, short = evidence["changed"].values < SAME, evidence["eta"].values < evidence["length"].values
    note = f"{int(short.sum())} steps are shorter"
    return percentage(int((same == short).sum()), len(same), "random points and steps", note)


def flips_beyond_length(evidence: xr.Dataset) -> Estimate:
    """Percentage of the points with a step longer than |x| at which f turns to -f."""
    beyond = evidence.isel(case=evidence["eta"].values > evidence["length"].values)
    return percentage(int((beyond["turned"].values < SAME).sum()), beyond.sizes["case"], "random points and steps")


def disproportionate_changes(evidence: xr.Dataset) -> Estimate:
    """Percentage of the points near the origin at which a small modification changes f by more than LARGE times its
    length."""
    near = evidence.isel(case=(evidence["length"].values < NEAR) & (evidence["small"].values <= SMALL))
    hits = int((near["moved"].values > LARGE * near["small"].values).sum())
    total = near.sizes["case"]
    times = (near["moved"] / near["small"]).values
    note = f"the largest is {times.max():.0f} times" if total else ""
    return Estimate(as_percentage(binomial_interval(hits, total)), total, "points near the origin", note=note)
