"""Verdicts on claims about the force audit, for made evidence."""

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.musat2024 import force_audit
from analysis.reproduction.musat2024.networks import DECAYS
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging


def evidence(generator, effect: float) -> xr.Dataset:
    """R² that is larger than with renamed tokens, and weights above 0; both grow with weight decay."""
    dims, shape = ("weight_decay", "epoch", "run"), (4, 4, 30)
    grows = effect * (1 + np.array(DECAYS)[:, None, None])
    noise = 0.02 * generator.standard_normal(shape)
    weight = np.stack([0.4 * grows + noise] * 4, axis=-1)
    data = {
        "r_squared": (dims, 0.15 + 0.3 * grows + noise),
        "renamed_r_squared": (dims, np.full(shape, 0.15)),
        "law_r_squared": (dims, np.full(shape, 0.1)),
        "weight": ((*dims, "field"), weight),
    }
    coords = {"weight_decay": list(DECAYS), "epoch": [0, 20, 100, 2000], "field": list(force_audit.FIELDS)}
    return xr.Dataset(data, coords)


@pytest.mark.parametrize(
    ("effect", "verdicts"),
    [(1, {Verdict.REPRODUCED}), (-1, {Verdict.NOT}), (0.08, {Verdict.PARTLY, Verdict.NOT})],
)
def test_claims_are_judged_by_the_size_of_effects(effect, verdicts, generator):
    found = judging.verdicts(force_audit.CLAIMS, evidence(generator, effect), "ca.audit")
    assert set(found.values()) == verdicts
    assert (found["OWN.audit"] is Verdict.NOT) == (effect < 1)


def test_estimates_and_notes(generator):
    found = evidence(generator, 1)
    assert force_audit.excess_r_squared(found, 1.0, 20).interval.value == pytest.approx(0.6, abs=0.02)
    assert force_audit.fields_r_squared(found, 1.0, 20).note == "0.10 with the paper's constants"
