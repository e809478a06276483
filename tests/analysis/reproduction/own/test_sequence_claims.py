"""Agreement of the order of events, and verdicts on it, for made evidence."""

import itertools

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.own import sequence_claims
from tests.analysis.reproduction.judging import NO, YES, part_verdicts


def evidence(network, particle) -> xr.Dataset:
    """Times of events in circles, (circle, event)."""
    data = {
        "network_onset": (("network", "event"), network),
        "particle_onset": (("particle", "event"), particle),
    }
    return xr.Dataset(data, {"event": list(sequence_claims.EVENTS)})


@pytest.fixture
def times(generator):
    """Times in twenty circles, of which two have another order."""
    times = np.array([0.2, 0.5, 0.3, 0.1]) + 0.001 * generator.standard_normal((20, 4))
    times[:2] = times[:2, [0, 2, 1, 3]]
    return times


@pytest.mark.parametrize(
    ("factor", "expected", "agreement"), [(10, YES, (90, 100)), (-1, NO, (0, 10))]
)
def test_equal_and_opposite_orders(factor, expected, agreement, times):
    data = evidence(times, factor * times)
    assert part_verdicts("OWN.sequence", data) == [expected] * 3
    between = sequence_claims.agreement_of_systems(data)
    assert agreement[0] < between.value < agreement[1]
    assert (
        "networks: frequency, polygon, imperfections, circle; particles: "
        in between.note
    )


def test_events_that_do_not_happen_are_last_and_few_circles_have_no_estimate(times):
    late = np.where(np.arange(4) == 3, np.inf, times)
    assert part_verdicts("OWN.sequence", evidence(times, late))[0] == NO
    few = sequence_claims.agreement_of_systems(evidence(times[:2], times))
    assert np.isnan(few.value)
    assert few.note


def test_agreement_is_a_mean_over_pairs_of_circles(generator):
    one, other = (generator.random((2, 6, 5)) < 0.4).astype(float)
    between = np.mean([[(a == b).mean() for b in other] for a in one])
    assert sequence_claims.mean_agreement(one, other) == pytest.approx(100 * between)
    for index, side in enumerate((one, other)):
        within = np.mean([(a == b).mean() for a, b in itertools.permutations(side, 2)])
        assert sequence_claims.mean_agreement(one, other, index) == pytest.approx(
            100 * (between - within)
        )


def test_ensembles_have_the_settings_that_form_most_circles():
    network, particle = sequence_claims.ensembles({"networks": 3, "particles": 4})
    assert (
        network.settings.weight_decay,
        network.runs,
        particle.settings.fa,
        particle.runs,
    ) == (1, 3, 2, 4)
