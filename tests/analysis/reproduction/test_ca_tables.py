"""CA table 2, a thousand runs a row with all defaults: within what the paper's hundred allow."""

import pytest

from analysis.reproduction.ca_tables import PRINTED_PARTICLE_ROWS, is_printed_particle_row, particle_row
from analysis.structures.circles_and_grids import summarise_structures
from dynamics.settings import ParticleSettings
from dynamics.simulation import simulate


@pytest.mark.parametrize(
    ("fa", "circles", "imperfections"),
    [(0.5, (0, 3.6), (31.8, 39.2)), (1.0, (8, 26), (31.5, 41.1)), (2.0, (46, 66), (32.8, 53))],
)
def test_a_row(fa, circles, imperfections):
    settings = ParticleSettings(fa=fa)
    ends = simulate(settings, runs=1000, every=100, progress=False)["embedding"].isel(step=-1).values
    found = summarise_structures(ends)
    assert circles[0] <= 100 * found.circle_fraction.value <= circles[1]
    assert imperfections[0] <= found.imperfections.value <= imperfections[1]
    assert particle_row(settings, 100, ends).text[-1] == PRINTED_PARTICLE_ROWS[fa].imperfections


def test_the_paper_is_quoted_only_for_its_own_settings():
    assert is_printed_particle_row(ParticleSettings(fa=2.0, step_rule="direction"), 100)
    assert not is_printed_particle_row(ParticleSettings(fa=2.0), 99)
    assert not is_printed_particle_row(ParticleSettings(fa=1.5), 100)
    assert not is_printed_particle_row(ParticleSettings(fa=2.0, n=19), 100)
