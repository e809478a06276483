"""Verdicts on claims about alignment, for made evidence, and angles of weights in polygons."""

import numpy as np
import pytest
import xarray as xr

from analysis.forces.alignment import embedding_pair_sums
from analysis.reproduction.musat2024 import alignment
from analysis.reproduction.verification.criteria import Verdict
from dynamics.settings import ModularSettings
from dynamics.simulation import simulate
from dynamics.tasks import all_pairs
from tests.analysis.reproduction import judging
from tests.analysis.reproduction.musat2024.networks_evidence import table
from tests.polygons import polygon

LEVELS = [(1, {Verdict.REPRODUCED}), (-1, {Verdict.NOT}), (0.1, {Verdict.PARTLY})]


@pytest.mark.parametrize(("effect", "verdicts"), LEVELS)
def test_angles_are_judged_by_the_size_of_effects(effect, verdicts, generator):
    circles, epochs = 40, len(alignment.EPOCHS)
    random = np.broadcast_to(2.0, (epochs, 2, circles))
    dims = ("epoch", "direction", "circle")
    angle = random * (1 - 0.6 * effect + 0.02 * generator.standard_normal(random.shape))
    evidence = xr.Dataset(
        {"angle": (dims, angle), "random": (dims, random), "tokens": ("circle", np.full(circles, 17)),
         "corners": ("circle", 8 + np.arange(circles) % 2)},
        {"epoch": list(alignment.EPOCHS), "direction": ["weight", "boundary"]},
    )  # fmt: skip
    assert set(judging.verdicts(alignment.CLAIMS, evidence, "ca.weight-angles").values()) == verdicts
    if effect == 1:
        assert alignment.angle_from_random(evidence, 17, 2000).note == "0.8° against 2.0°"
        assert alignment.relative_angle(evidence, "weight", odd=True).count == circles // 2


@pytest.mark.parametrize(("effect", "verdicts"), [(1, {Verdict.REPRODUCED}), (-1, {Verdict.UNDECIDED})])
def test_rays_are_judged_by_the_size_of_effects(effect, verdicts, generator):
    circle = np.broadcast_to(np.arange(30) < 15, (4, 30))
    rays = 0.78 + np.where(circle, 0.2, -0.1) * effect + 0.001 * generator.standard_normal((4, 30))
    evidence = table(circle, rays=rays, rays_chance=0.68)
    assert set(judging.verdicts(alignment.CLAIMS, evidence, "ca.alignment").values()) == verdicts
    assert alignment.rays_of_circles(evidence).note == "0.68 with tokens renamed at random"
    none = judging.verdicts(alignment.CLAIMS, evidence.assign(circle=0 * evidence["circle"]), "ca.alignment")
    assert set(none.values()) == {Verdict.UNTESTABLE}


class Polygons:
    """Runs ensembles in which the first two networks are polygons with six and three corners, with weights on them."""

    def ensemble(self, need):
        trajectory = simulate(need.settings, need.runs, steps=2, every=1, progress=False).load()
        embedding = np.stack([polygon(6), polygon(6, step=2), polygon(6) * np.arange(1, 7)[:, None]])
        trajectory["embedding"][:] = embedding[:, None].astype(np.float32)
        weights = embedding_pair_sums(embedding, np.tile(all_pairs(6)[:1], (32, 1)))
        trajectory["hidden_weight"][:] = weights[:, None]
        trajectory["hidden_bias"][:] = 0.1
        return trajectory


def test_angles_are_measured_in_circles_only():
    found = alignment.measure_angles(Polygons(), {"tokens": [6], "runs": 3})
    assert found["corners"].values.tolist() == [6, 3]
    end = found["angle"].sel(epoch=2000)
    np.testing.assert_allclose(end.sel(direction="weight"), 0, atol=0.1)
    np.testing.assert_allclose(end.sel(direction="boundary"), [0, 30], atol=0.1)
    np.testing.assert_allclose(found["random"].sel(epoch=2000)[:, 1], 15, rtol=0.05)
    assert alignment.angle_ensembles({"tokens": [6], "runs": 3})[0].settings == ModularSettings(n=6, weight_decay=1)
