"""Verdicts on claims about weight decay, for made evidence."""

import numpy as np
import pytest

from analysis.reproduction.musat2024 import weight_decay
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction import judging
from tests.analysis.reproduction.musat2024.networks_evidence import DECAY, table

REPRODUCED, PARTLY, NOT, UNDECIDED = Verdict.REPRODUCED, Verdict.PARTLY, Verdict.NOT, Verdict.UNDECIDED


def halt(generator, effect):
    """Embeddings that move less without weight decay."""
    moved = np.where(DECAY == 0, 0.15 * 15**-effect, 0.15) * np.exp(0.05 * generator.standard_normal((4, 30)))
    return table(0 * moved, second_half=moved, rate=moved, slowing=moved)


def accuracies(generator, effect):
    """Validation accuracy that grows with weight decay, and training accuracy that does not."""
    noise = generator.standard_normal((4, 100))
    return table(0 * noise, accuracy=60 + 40 * effect * (DECAY - 1) + 5 * noise, train_accuracy=60.0)


def sizes(generator, effect):
    """Weights that are smaller with weight decay, and biases that are more so."""
    decay = np.array(weight_decay.DECAYS)[:, None]
    noise = np.exp(0.02 * generator.standard_normal((11, 30)))
    values = {name: np.exp(-power * effect * decay) * noise ** (1 + power)
              for name, power in (("weight", 1), ("output_weight", 1), ("bias", 2))}  # fmt: skip
    return table(np.zeros((11, 30)), decays=weight_decay.DECAYS, **values)


@pytest.mark.parametrize(
    ("experiment", "made", "effect", "verdicts"),
    [
        ("ca.halt", halt, 1, {REPRODUCED}),
        ("ca.halt", halt, -1, {UNDECIDED}),  # a bound of our own, and the opposite of what is claimed
        ("ca.halt", halt, 0.05, {PARTLY}),
        ("ca.table1", accuracies, 1, {REPRODUCED}),
        ("ca.table1", accuracies, -1, {NOT}),
        ("ca.table1", accuracies, 0.1, {PARTLY}),
        ("ca.figure6", sizes, 1, {REPRODUCED}),
        ("ca.figure6", sizes, -1, {NOT}),
    ],
)
def test_claims_are_judged_by_the_size_of_effects(experiment, made, effect, verdicts, generator):
    found = judging.verdicts(weight_decay.CLAIMS, made(generator, effect), experiment)
    assert set(found.values()) == verdicts


def test_weights_that_are_a_little_smaller_are_not_strongly_limited(generator):
    found = judging.verdicts(weight_decay.CLAIMS, sizes(generator, 0.05), "ca.figure6")
    assert found["CA.figure6.limited"] == found["CA.s7.output"] == found["CA.figure6.biases"] == PARTLY


def test_estimates(generator):
    assert weight_decay.bias_to_weight_ratio(sizes(generator, 1)).interval.value == pytest.approx(np.e, rel=0.05)
    assert weight_decay.overfitting_gap(accuracies(generator, 1)).interval.value == pytest.approx(40, abs=2)
    assert weight_decay.overfitting_gap_change(accuracies(generator, 1)).interval.value == pytest.approx(40, abs=2)
