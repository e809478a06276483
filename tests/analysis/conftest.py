"""Trajectories that tests of several commands draw."""

import pytest

from dynamics.settings import ModularSettings, ParticleSettings, SparseSettings
from dynamics.simulation import simulate

MODULAR, SPARSE = {"n": 7, "hidden": 6}, {"data": 64, "hidden": 7}
SMALL_RUNS = {
    "particles": (ParticleSettings(n=7), {"steps": 12}),
    "modular": (ModularSettings(**MODULAR), {"steps": 40}),
    "metrics": (ModularSettings(**MODULAR), {"steps": 40, "record": "metrics"}),
    "sparse": (SparseSettings(**SPARSE), {"steps": 24, "every": 8}),
    "deep": (SparseSettings(**SPARSE, dim=3), {"steps": 8, "every": 8}),
    "wild": (ModularSettings(**MODULAR, optimizer="sgd", lr=1e-3, weight_decay=2500), {"steps": 40, "every": 1}),
}


@pytest.fixture(scope="session")
def small_runs(tmp_path_factory):
    """A small trajectory of each kind, two runs each, by name."""
    folder, found = tmp_path_factory.mktemp("small-runs"), {}
    for name, (settings, options) in SMALL_RUNS.items():
        found[name] = folder / f"{name}.nc"
        simulate(settings, runs=2, seed=3, out=found[name], progress=False, **options)
    return found
