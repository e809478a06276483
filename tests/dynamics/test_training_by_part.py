"""Learning rate, weight decay and freezing of single variables of every network."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.linearization.network_curvature import relative_learning_rates
from dynamics import (
    ModularSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
    read_settings,
    simulate,
)
from dynamics.optimizers import update_numbers
from dynamics.settings_text import setting_texts
from tests.dynamics.test_optimizers import BACKENDS, NETWORKS, SEEDS, SETTINGS, SMALL


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings_know_the_variables_of_their_network(kind):
    settings = SETTINGS[kind]
    assert settings.weight_names == tuple(NETWORKS[kind](settings).variables)


def test_variables_that_a_network_does_not_have_are_no_names():
    settings = SparseSettings(receptor_biases=False, output_bias=False)
    assert settings.weight_names == tuple(NETWORKS["sparse"](settings).variables)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "lion"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_variable_has_its_rate_and_decay(backend, optimizer):
    kind = backend.split()[0]
    plain = SETTINGS[kind]
    first, second, third, *_, last = plain.weight_names
    settings = dataclasses.replace(
        plain,
        optimizer=optimizer,
        weight_decay=0.3,
        lr=0.01,
        schedule="warmup:3",
        decay_of=(f"{third}=0.0", f"{first}=0.7"),
        lr_of=(f"{second}=0.003",),
        freeze=(last,),
    )
    network, engine = NETWORKS[kind](settings), BACKENDS[backend](settings)
    value = settings.optimizer_value
    rows = network.flatten(network.initial(SEEDS))
    engine.set_state(rows, {key: np.zeros_like(rows) for key in value.moments}, 0)
    rates = dict.fromkeys(network.variables, 0.01) | {second: 0.003, last: 0.0}
    decays = dict.fromkeys(network.variables, 0.3) | {third: 0.0, first: 0.7}
    for step in range(3):
        before, moments = engine.weights().astype(float), engine.moments()
        engine.train(step, 1)
        numbers = update_numbers(settings.hyperparameters, step + 1)
        factor = settings.learning_rate_factor(step)
        numbers["lr"] = factor * np.repeat(list(rates.values()), network.lengths)
        numbers["weight_decay"] = np.repeat(list(decays.values()), network.lengths)
        given = [moments[key].astype(float) for key in value.moments]
        gradient = engine.gradient().astype(float)
        weight = value.apply(gradient, before, given, numbers)[0]
        clear = np.abs(gradient) > (1e-7 if optimizer == "lion" else -1)
        assert_allclose(engine.weights()[clear], weight[clear], rtol=3e-6, atol=1e-7)
    frozen = network.begins[last]
    end = frozen + network.lengths[list(network.variables).index(last)]
    assert_array_equal(engine.weights()[:, frozen:end], rows[:, frozen:end])


@pytest.mark.parametrize("backend", ["simd", "blas"])
def test_the_former_name_of_the_decay_of_the_embedding(backend):
    former = dataclasses.replace(SMALL, embedding_weight_decay=0.1)
    settings = dataclasses.replace(SMALL, decay_of=("embedding=0.1",))
    one, other = (
        simulate(item, runs=3, steps=20, backend=backend, progress=False)
        for item in (former, settings)
    )
    assert_array_equal(one["embedding"].values, other["embedding"].values)
    assert read_settings(one) == former


def test_relative_rates_are_those_of_the_variables():
    settings = ModularSettings(n=5, lr_of=("hidden_bias=0.02",), freeze=("embedding",))
    rates = relative_learning_rates(NETWORKS["modular"](settings))
    assert set(rates[:10]) == {0.0}
    assert set(rates) == {0.0, 1.0, 2.0}


def test_a_file_has_what_differs_from_the_defaults(tmp_path):
    settings = TransformerSettings(n=5, dim=8, freeze=("unembedding", "embedding"))
    assert settings.freeze == ("embedding", "unembedding")
    path = tmp_path / "a.nc"
    frozen = simulate(settings, runs=1, steps=4, out=path, progress=False)
    assert read_settings(frozen) == settings
    assert "decay_of" not in frozen.attrs["config_json"]
    for name in settings.freeze:
        assert_array_equal(frozen[name][:, 0], frozen[name][:, -1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"freeze": ("query",)}, "freeze: found query, allowed is variables among emb"),
        ({"freeze": ("embedding=1",)}, "freeze: found embedding=1"),
        ({"decay_of": ("embedding",)}, "allowed is VARIABLE=NUMBER, each of another"),
        ({"decay_of": ("embedding=a",)}, "decay_of: found embedding=a"),
        ({"lr_of": ("embedding=-1",)}, "lr_of: found embedding=-1"),
        ({"lr_of": ("embedding=1", "embedding=2")}, "lr_of: found embedding=2"),
        (
            {"decay_of": ("embedding=1",), "embedding_weight_decay": 0.2},
            "none if --decay-of names the embedding",
        ),
    ],
)
def test_wrong_parts_are_refused_in_one_line(options, message):
    with pytest.raises(SettingsError, match=message) as caught:
        ModularSettings(**options)
    assert "\n" not in str(caught.value)


def test_parts_and_registered_optimizers_are_in_the_words_and_options_of_settings():
    parts = {"freeze": ("output_bias",), "decay_of": ("embedding=0",)}
    settings = dataclasses.replace(SMALL, optimizer="lion", **parts)
    words = setting_texts(settings)
    assert "optimizer lion" in words
    assert "decay of embedding=0.0" in words
    options = " ".join(setting_texts(settings, form="option"))
    assert "--optimizer lion --" in options
    assert "--decay-of embedding=0.0 --freeze output_bias" in options
