"""VC section 4.3 and figure 12: the effect of a step on f(x) = x / |x| near the origin,
at random points."""

import numpy as np
import torch
import xarray as xr

from analysis.reproduction.verification import (
    Estimate,
    Params,
    Runner,
    declare_experiment,
    described,
    samples,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.randomness import random_stream
from dynamics.settings import SparseSettings

DIMS = (2, 3, 8)

SAME = 1e-6
"""Largest change of a vector of length 1 that counts as rounding error."""

NEAR, SMALL, LARGE = 0.05, 0.01, 10.0
"""Distance that is near the origin; length of a small modification; ratio of the change
of f to it that is out of proportion. Embeddings have lengths of about 1."""


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Changes of f at random points by a step eta f(x) towards the origin, and by a
    small modification: (case,)."""
    parts = []
    for dim in DIMS:
        generator, cases = random_stream(dim, "normalisation"), params["cases"]
        normalise = ClusteringHead(SparseSettings(dim=dim, norm="unit")).normalise
        vectors = [generator.standard_normal((cases, dim)) for _ in range(2)]
        direction, other = (vector / _lengths(vector)[:, None] for vector in vectors)
        length, eta, small = np.power(
            10.0,
            [generator.uniform(*ends, cases) for ends in ((-4, 0), (-4, 0), (-4, -2))],
        )
        x = torch.from_numpy(direction * length[:, None])
        f = normalise(x)
        stepped = normalise(x - torch.from_numpy(eta)[:, None] * f)
        modified = normalise(x + torch.from_numpy(other * small[:, None]))
        values = {
            "dim": (np.full(cases, dim), "axes"),
            "length": (length, "|x|"),
            "eta": (eta, "length of the step towards the origin"),
            "changed": (_lengths((stepped - f).numpy()), "change of f by the step"),
            "turned": (
                _lengths((stepped + f).numpy()),
                "distance of f after the step from -f",
            ),
            "small": (small, "length of a random modification"),
            "moved": (
                _lengths((modified - f).numpy()),
                "change of f by the modification",
            ),
        }
        parts.append(described("case", values))
    return xr.concat(parts, "case")


def _lengths(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=1)


NORMALISATION = declare_experiment("vc.normalisation", measure, depends={"dims": DIMS})


def unchanged_below_length(evidence: xr.Dataset) -> Estimate:
    """Percentage of points at which f is unchanged if and only if the step is shorter
    than |x|."""
    same, short = evidence["changed"] < SAME, evidence["eta"] < evidence["length"]
    return samples.percentage_of_ones(
        same == short, "points", f"{int(short.sum())} steps are shorter"
    )


def flips_beyond_length(evidence: xr.Dataset) -> Estimate:
    """Percentage of the points with a step longer than |x| at which f becomes -f."""
    turned, beyond = evidence["turned"] < SAME, evidence["eta"] > evidence["length"]
    return samples.percentage_among(turned.values, beyond.values, "points")


def disproportionate_changes(evidence: xr.Dataset) -> Estimate:
    """Percentage of the points near the origin at which a small modification changes f
    by more than LARGE times it."""
    near = evidence.isel(
        case=(evidence["length"].values < NEAR) & (evidence["small"].values <= SMALL)
    )
    times = (near["moved"] / near["small"]).values
    note = (
        f"the largest change is {times.max():.0f} times the modification"
        if times.size
        else ""
    )
    return samples.percentage_of_ones(times > LARGE, "points near the origin", note)
