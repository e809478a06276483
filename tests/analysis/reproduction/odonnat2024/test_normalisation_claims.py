"""VC figure 12: steps and modifications near the origin, of x / |x| and of a function
that is not a normalisation."""

from analysis.reproduction.odonnat2024 import normalisation_claims
from tests.analysis.reproduction.judging import NO, YES, part_verdicts


def test_verdicts_on_steps_near_the_origin():
    data = normalisation_claims.measure(None, {"cases": 40})
    flat = data.assign(
        changed=0 * data["changed"],
        turned=0 * data["turned"] + 2,
        moved=data["small"],
    )
    assert part_verdicts("VC.s4.3.step-below-length", data) == [YES] * 2
    assert part_verdicts("VC.s4.3.step-below-length", flat) == [NO] * 2
    assert normalisation_claims.flips_beyond_length(flat).value == 0
    assert part_verdicts("VC.figure12.out-of-proportion", data) == [YES]
    assert normalisation_claims.disproportionate_changes(flat).value == 0
