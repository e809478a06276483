"""Settings refuse what makes no sense, and name it."""

import math
import pickle

import pytest

from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
)

INVALID = {
    ParticleSettings: [
        *(
            (name, value)
            for name in ("fa", "ga", "gr")
            for value in (math.nan, math.inf, -1.0, 1e7, "1", None, True)
        ),
        *(("step_size", value) for value in (0.0, -0.1, math.nan, math.inf, 1e7)),
        *(
            (name, value)
            for name in ("n", "dim")
            for value in (0, -3, 2.5, 10**9, True, "17")
        ),
        ("step_rule", "bogus"),
        ("repulsion_balance", ""),
        ("alignment_balance", 1),
        ("variance", None),
        ("diagonal", "sometimes"),
        ("start", ""),
        ("start_step", -2),
        ("start_step", 3),  # without a file
    ],
    ModularSettings: [
        *(("n", value) for value in (0, 10**9, 17.0)),
        *(("hidden", value) for value in (0, True)),
        *(("weight_decay", value) for value in (-0.1, math.nan)),
        *(("embedding_weight_decay", value) for value in (-0.1, "none")),
        *(("lr", value) for value in (0, math.inf)),
        *(("train_share", value) for value in (0, 1.5, 0.001)),
        *(
            ("dim", 0),
            ("optimizer", "no_optimizer"),
            ("beta1", 1.0),
            ("beta2", -1),
            ("momentum", 0.9),
        ),
    ],
    SparseSettings: [
        *(("sparsity", value) for value in (0, 13)),
        *(("positions", value) for value in ((1, 2), (0, 1, 2, 3, 3))),
        *(("batch", value) for value in (0, 2049)),
        *(("start_runs", value) for value in ("successful", "best")),
        *((name, 0) for name in ("length", "data", "dim", "hidden", "mlp_lr_discount")),
        *(
            ("vocab", 1),
            ("norm", "layer"),
            ("table", -1),
            ("activation", "swish"),
            ("output_bias", 1),
        ),
        *(("receptor_biases", None), ("start", ""), ("start_step", 3)),
    ],
    TransformerSettings: [
        *((name, 0) for name in ("n", "dim", "heads", "layers")),
        *((name, -1) for name in ("hidden", "head_dim", "warmup", "batch")),
        *(
            (name, 1)
            for name in ("ordered", "causal", "equals_token", "own_vocabularies")
        ),
        *(("attention_rate", value) for value in (-0.1, 1.1)),
        *(("train_share", value) for value in (0, 1.5, 0.0001)),
        *(
            ("batch", 10**6),
            ("task", "divide"),
            ("activation", "swish"),
            ("initialisation", "xavier"),
        ),
    ],
}


REFUSED = [(kind, field, value) for kind in INVALID for field, value in INVALID[kind]]


@pytest.mark.parametrize(("kind", "field", "value"), REFUSED)
def test_invalid_settings_are_refused_by_name(kind, field, value):
    with pytest.raises(SettingsError) as error:
        kind(**{field: value})
    assert error.value.field == field
    assert str(error.value).startswith(f"{field}: found {value}, allowed is ")


def test_a_table_smaller_than_the_vocabulary_and_a_position_beyond_the_sequence_are_refused():
    for values, name in (
        ({"vocab": 3, "table": 2}, "table: found 2"),
        ({"positions": (0, 1, 2, 3, 12)}, "positions"),
    ):
        with pytest.raises(SettingsError, match=name):
            SparseSettings(**values)


def test_an_error_can_be_pickled():
    error = pickle.loads(
        pickle.dumps(SettingsError("fa", -1, "more"))
    )  # in memory, never from a file
    assert (error.field, error.found, error.allowed) == ("fa", -1, "more")


def test_defaults_are_the_most_literal_reading():
    s = ParticleSettings()
    assert (s.fa, s.ga, s.gr, s.n, s.dim, s.step_size, s.default_steps) == (
        1,
        1,
        1,
        17,
        2,
        0.003,
        100,
    )
    assert (s.step_rule, s.variance, s.diagonal) == ("force", "overall", "twice")
    assert (s.repulsion_balance, s.alignment_balance) == ("magnitude", "count")
