"""Made evidence of networks at several weight decays, and of particles as in table
2."""

import numpy as np
import xarray as xr
from scipy.stats import norm

from analysis.reproduction.musat2024 import particle_claims
from analysis.reproduction.musat2024.networks import DECAYS, DIMS
from tests.analysis.reproduction.judging import dataset

DECAY = np.array(DECAYS)[:, None]
PRINTED_CIRCLES = np.array([row["circles"] for row in particle_claims.PRINTED.values()])


def table(circle, decays=DECAYS, **quantities) -> xr.Dataset:
    """Evidence of networks from rows that broadcast to (weight_decay, run)."""
    columns = dict(
        zip(
            ["circle", *quantities],
            np.broadcast_arrays(circle, *quantities.values()),
            strict=True,
        )
    )
    rows = {name: np.array(values, float) for name, values in columns.items()}
    return dataset(
        DIMS,
        {"weight_decay": list(decays), "run": np.arange(rows["circle"].shape[1])},
        **rows,
    )


def simulations(
    circles=PRINTED_CIRCLES, imperfections=0.0, spread=1.0, runs=1000
) -> xr.Dataset:
    """Evidence of particles with a percentage of circles by f_a; imperfections as
    printed, shifted and scaled."""
    noise = np.random.default_rng(1).permutation(
        norm.ppf((np.arange(runs) + 0.5) / runs)
    )
    mean = np.array(
        [
            float(row["imperfections"].split()[0])
            for row in particle_claims.PRINTED.values()
        ]
    )[:, None]
    deviation = np.array(
        [
            [particle_claims.printed_spread(fa).interval.value]
            for fa in particle_claims.FAS
        ]
    )
    circle = (np.arange(runs) < runs / 100 * np.asarray(circles)[:, None]).astype(float)
    values = mean + imperfections + spread * deviation * noise
    return dataset(
        ("fa", "run"),
        {"fa": list(particle_claims.FAS)},
        circle=circle,
        imperfections=values,
    )
