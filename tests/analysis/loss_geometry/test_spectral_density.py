"""Spectral densities along a run against whole spectra."""

import numpy as np
import pytest

import dynamics
from analysis import operator
from analysis.loss_geometry import spectral_density
from dynamics import ModularSettings


@pytest.mark.parametrize("matrix", ["hessian", "gauss_newton"])
def test_densities_have_the_spectrum_of_each_frame(matrix):
    trained = dynamics.simulate(ModularSettings(n=5), runs=1, steps=20, every=20)
    whole = spectral_density(trained, [0, 1], matrix)
    quadrature = spectral_density(trained, [0, 1], matrix, probes=8, whole=0)
    assert (whole.attrs["whole"], quadrature.attrs["whole"]) == (1, 0)
    for step in range(2):
        values = np.linalg.eigvalsh(operator(trained.isel(step=[step]), matrix).matrix)
        null = 1e-4 * np.abs(values).max()
        at = whole.isel(run=0, step=step)
        assert at["largest"] == pytest.approx(values[-1])
        assert at["lowest"] == pytest.approx(values[0], abs=1e-9)
        assert at["trace"] == pytest.approx(values.sum(), rel=1e-6)
        assert at["saddle_index"] == pytest.approx((values < -null).sum())
        assert at["null_fraction"] == pytest.approx((abs(values) <= null).mean())
        near = quadrature.isel(run=0, step=step)
        assert near["largest"] == pytest.approx(values[-1], rel=1e-8)
        for result in (at, near):
            integral = np.trapezoid(result["density"], result["eigenvalue"])
            assert integral == pytest.approx(1, abs=0.01)
