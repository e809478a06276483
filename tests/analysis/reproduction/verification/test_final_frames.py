"""Measures of the runs of ensembles that have not diverged."""

import sys

import numpy as np
import xarray as xr
from analysis.reproduction.verification import experiment

from analysis.reproduction.experiment import RequiredRuns, Runner
from dynamics.settings import ParticleSettings
from dynamics.trajectory.diverged import not_diverged


def ones(trajectory):
    return {"size": np.ones(trajectory.sizes["run"])}


def test_runs_that_diverged_have_no_value(tmp_path, monkeypatch):
    finite = np.array([True, False, True])
    np.testing.assert_equal(
        experiment.expand_to_runs(np.array([1.0, 2.0]), finite), [1.0, np.nan, 2.0]
    )
    trajectory = xr.Dataset({"last_step": ("run", [10, 5])}, {"step": [0, 10]})
    assert not_diverged(trajectory).tolist() == [True, False]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "not_diverged", lambda trajectory: finite)
    needs = [RequiredRuns(ParticleSettings(n=5, fa=fa), 3, 2) for fa in (1.0, 2.0)]
    sizes = experiment.measure_ensembles(
        Runner(sys.stderr), needs, {"size": "norm"}, ones, ("fa", "run")
    )
    np.testing.assert_equal(sizes["size"].values, [[1.0, np.nan, 1.0]] * 2)
    assert sizes["size"].attrs == {"long_name": "norm", "units": "1"}
