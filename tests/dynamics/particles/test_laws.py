"""Laws other than CA's: kernels against plain loops, closed-form paths, noise."""

import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from dynamics import ParticleSettings, SettingsError, all_pairs, read_settings, simulate
from dynamics.forces import (
    CA,
    Force,
    ca_forces,
    check_law,
    law_from_json,
    law_json,
)
from dynamics.particles import ParticleSystem, force_fields, group_pairs
from dynamics.particles.pair_forces import field_kernels
from dynamics.settings_text import describe_settings

SCALE = 0.5


def own_strength(r):
    return SCALE * math.exp(-r) / (1 + r * r)


LAWS = {
    "powers": ca_forces("r**2", "1/r**3", "c > 0.5"),
    "functions": ca_forces("exp(-r)", "(1 + r)/(0.5 + r**2)", "max(c, 0)**2"),
    "all pairs": (
        Force("cohesion", "all", "difference", "-r/(1 + r)", 0.3),
        Force("turn", "all", "other", "1 - c", 0.1),
        Force("push", "unlike", "difference", "1/r - 0.1/r**2", 1.0),
    ),
    "tables": (
        *CA,
        Force(
            "table", "like", "difference", "interp(log(r), [-1, 0.2, 1], [2, -1, 3])"
        ),
    ),
    "own": (Force("own", "unlike", "difference", own_strength),),
}
PLAIN = {
    "powers": [
        lambda r: -(r**2),
        lambda r: r**-3,
        lambda c: float(c > 0.5),
        lambda c: -float(c > 0.5),
    ],
    "functions": [
        lambda r: -math.exp(-r),
        lambda r: (1 + r) / (0.5 + r**2),
        lambda c: max(c, 0.0) ** 2,
        lambda c: -(max(c, 0.0) ** 2),
    ],
    "all pairs": [
        lambda r: -r / (1 + r),
        lambda c: 1 - c,
        lambda r: 1 / r - 0.1 / r**2,
    ],
    "tables": [
        lambda r: -1.0,
        lambda r: 1 / r,
        lambda c: float(c > 0),
        lambda c: -float(c > 0),
        lambda r: float(np.interp(math.log(r), [-1, 0.2, 1], [2, -1, 3])),
    ],
    "own": [lambda r: 0.5 * math.exp(-r) / (1 + r * r)],
}
"""The strengths of the laws, written a second time."""


def plain_fields(x, law, strengths):
    """The fields (force, token, axis) of a law and their magnitudes (force,), in plain
    loops over pairs of pairs."""
    n = len(x)
    pairs = list(itertools.combinations_with_replacement(range(n), 2))
    field = np.zeros((len(law), n, x.shape[1]))
    magnitude = np.zeros(len(law))
    for (i, j), (k, m) in itertools.permutations(pairs, 2):
        kind = "like" if (i + j - k - m) % n == 0 else "unlike"
        here = x[i] + x[j]
        other = x[k] + x[m]
        distance = np.linalg.norm(here - other)
        lengths = np.linalg.norm(here), np.linalg.norm(other)
        for place, (force, strength) in enumerate(zip(law, strengths, strict=True)):
            if force.pairs not in (kind, "all"):
                continue
            if force.along == "difference":
                if distance == 0:
                    continue
                size = strength(distance)
                vector = size * (here - other) / distance
            else:
                if 0 in lengths:
                    continue
                size = strength(np.clip(here @ other / lengths[0] / lengths[1], -1, 1))
                vector = size * other / lengths[1]
            magnitude[place] += abs(size)
            field[place, i] += vector
            field[place, j] += vector
    return field, magnitude


@pytest.mark.parametrize("name", LAWS)
@given(n=st.integers(1, 7), seed=st.integers(0, 2**32))
def test_fields_are_those_of_plain_loops(name, n, seed):
    x = np.random.default_rng(seed).standard_normal((n, 2))
    result = force_fields(x, law=LAWS[name])
    field, magnitude = plain_fields(x, LAWS[name], PLAIN[name])
    assert_allclose(result.force, field, rtol=1e-10, atol=1e-11 * np.abs(field).max())
    assert_allclose(result.magnitude, magnitude, rtol=1e-11)


@pytest.mark.parametrize("name", ["all pairs", "functions"])
def test_coincident_pair_sums_and_those_at_the_origin_exert_no_force(name):
    x = np.array([[0, 0], [1, 0], [-1, 0], [1, 0], [0, 2.0]])
    result = force_fields(x, law=LAWS[name])
    field, magnitude = plain_fields(x, LAWS[name], PLAIN[name])
    assert_allclose(result.force, field, atol=1e-13 * np.abs(field).max())
    assert_allclose(result.magnitude, magnitude, rtol=1e-13)


@pytest.mark.parametrize("name", LAWS)
def test_across_and_within_runs_give_the_same_bits(name, monkeypatch):
    x = np.random.default_rng(0).standard_normal((3, 9, 2))
    results = []
    for across in (True, False):
        monkeypatch.setattr(
            "dynamics.particles.pair_forces.summation_plan",
            lambda runs, pairs, across=across: (across, 2),
        )
        results.append(force_fields(x, law=LAWS[name]))
    assert_array_equal(results[0].force, results[1].force)
    assert_array_equal(results[0].magnitude, results[1].magnitude)


def test_the_total_force_has_constants_and_balance_of_the_law():
    law = (
        Force("pull", "like", "difference", "-r", "ga"),
        Force("push", "unlike", "difference", "exp(-r)", 0.7, "magnitude", "pull"),
        Force("turn", "all", "other", "c", 0.2, "count", "push"),
    )
    settings = ParticleSettings(n=6, ga=1.5, law=law)
    x = np.random.default_rng(1).standard_normal((1, 6, 2))
    field, magnitude = plain_fields(
        x[0], law, [lambda r: -r, lambda r: math.exp(-r), float]
    )
    pairs = group_pairs(6)
    weights = [1.5, 0.7 * magnitude[0] / magnitude[1], 0.2 * pairs.unlike]
    weights[2] /= pairs.like + pairs.unlike
    expected = sum(w * f for w, f in zip(weights, field, strict=True))
    assert_allclose(ParticleSystem(settings).force(x)[0][0], expected, rtol=1e-11)


SCRIPT = """
import sys
import numpy as np
from dynamics.forces import ca_forces
from dynamics.particles import force_fields

x = np.random.default_rng(0).standard_normal((5, 2))
for repulsion in sys.argv[1:]:
    print(force_fields(x, law=ca_forces(repulsion=repulsion)).force.tobytes().hex())
"""


@pytest.mark.slow
def test_kernels_that_several_processes_have_cached_are_not_mixed_up(tmp_path):
    """The loader takes machine code of the same name for the same function."""
    variables = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def fields(*repulsions):
        command = [sys.executable, "-c", SCRIPT, *repulsions]
        result = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=True
        )
        return result.stdout.split()

    laws = ("1/r", "1/r**3", "1/(1 + r)")
    alone = [fields(law)[0] for law in laws]
    assert len(set(alone)) == len(laws)
    assert fields(*laws) == alone


ADVANCE = """
import sys
import numpy as np
from dynamics.forces import CA, Force
from dynamics.particles import ParticleSystem
from dynamics.settings import ParticleSettings

count, dim = map(int, sys.argv[1:])
more = [Force(f"more{k}", "all", "difference", f"-r**{k + 1}", 0.01) for k in range(8)]
law = (*CA, *more)[:count]
system = ParticleSystem(ParticleSettings(n=9, dim=dim, law=law))
state = system.advance(system.initial(np.arange(5)), 3)
print(state.embedding.tobytes().hex())
"""


@pytest.mark.parametrize(
    ("forces", "dim"),
    [
        (5, 2),
        *(pytest.param(k, 2, marks=pytest.mark.slow) for k in (1, 2, 4, 7, 12)),
        *(pytest.param(k, 3, marks=pytest.mark.slow) for k in (5, 6)),
    ],
)
def test_a_law_runs_from_the_cache_as_when_it_was_compiled(tmp_path, forces, dim):
    variables = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", ADVANCE, str(forces), str(dim)]
    first, *others = [
        subprocess.run(command, env=variables, capture_output=True, text=True)
        for _ in range(3)
    ]
    assert first.returncode == 0, first.stderr
    for other in others:
        assert (other.returncode, other.stdout) == (0, first.stdout)


def test_kernels_of_different_laws_have_different_names():
    names = [
        kernel.__qualname__
        for repulsion in ("1/r", "1/r**3")
        for kernel in field_kernels(ca_forces(repulsion=repulsion), 2)
    ]
    assert len(set(names)) == len(names)


# ---------------------------------------------------------------------- closed-form paths


@pytest.mark.parametrize(
    "power", [-3, 2, *(pytest.param(p, marks=pytest.mark.slow) for p in (-1, 1))]
)
def test_two_particles_follow_the_closed_form_path(power):
    """For N = 2 only the pairs (0, 0) and (1, 1) are like, and y = x_0 - x_1 has y' =
    -4 (2y)^p."""
    law = (Force("pull", "like", "difference", f"-r**{power}"),)
    start = np.array([[[1.0, 0], [-1.0, 0]]])
    time = 0.05
    begin = 2.0
    expected = begin * math.exp(-8 * time)
    if power != 1:
        growth = (power - 1) * 4 * 2**power * time
        expected = (begin ** (1 - power) + growth) ** (1 / (1 - power))
    errors = []
    for steps in (200, 400):
        settings = ParticleSettings(
            n=2, law=law, variance="none", step_size=time / steps
        )
        system = ParticleSystem(settings)
        end = system.advance(system.state_from_positions(start), steps)
        errors.append(end.embedding[0, 0, 0] - end.embedding[0, 1, 0] - expected)
    assert abs(errors[1]) < 0.01 * begin
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


# ------------------------------------------------------------------------------- noise

HARMONIC = ParticleSettings(
    n=2,
    law=(Force("pull", "like", "difference", "-r"),),
    variance="none",
    step_size=0.02,
    temperature=0.3,
)


def test_a_harmonic_pair_with_noise_has_the_stationary_distribution():
    """y = x_0 - x_1 has y <- (1 - 8 h) y + sqrt(4 T h) z: normal, with variance 4 T h /
    (1 - (1 - 8 h)²)."""
    system = ParticleSystem(HARMONIC)
    end = system.advance(system.initial(np.arange(1500)), 70).embedding
    h = HARMONIC.step_size
    variance = 4 * HARMONIC.temperature * h / (1 - (1 - 8 * h) ** 2)
    values = (end[:, 0] - end[:, 1]).ravel() / math.sqrt(variance)
    assert stats.kstest(values, "norm").pvalue > 0.01
    assert (values**2).mean() == pytest.approx(1, abs=4 * math.sqrt(2 / len(values)))


def test_noise_depends_on_the_run_and_the_step_alone():
    settings = ParticleSettings(n=5, temperature=0.1)
    system = ParticleSystem(settings)
    together = system.advance(system.initial(np.arange(11)), 150)
    alone = ParticleSystem(settings).initial(np.arange(7, 8))
    for steps in (1, 62, 3, 84):
        alone = ParticleSystem(settings).advance(alone, steps)
        alone = system.restore(system.checkpoint(alone))
    assert_array_equal(alone.embedding[0], together.embedding[7])
    assert not np.array_equal(together.embedding[0], together.embedding[1])


def test_a_run_with_noise_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = ParticleSettings(n=5, temperature=0.1, repulsion="exp(-r)")
    simulate(settings, runs=2, steps=40, out="a.nc", progress=False).close()
    longer = simulate(settings, runs=2, steps=90, out="a.nc", progress=False)
    whole = simulate(settings, runs=2, steps=90, progress=False)
    assert_array_equal(longer["embedding"].values, whole["embedding"].values)


def test_without_noise_checkpoints_have_no_seeds():
    system = ParticleSystem(ParticleSettings(n=3))
    assert "noise_seed" not in system.checkpoint(system.initial(np.arange(2)))


# ------------------------------------------------------------------- laws in files


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_the_same_from_its_file(name, tmp_path):
    settings = ParticleSettings(n=5, law=LAWS[name])
    path = tmp_path / "a.nc"
    simulate(settings, runs=1, steps=2, out=path, progress=False).close()
    again = read_settings(simulate(settings, runs=1, steps=2, out=path, progress=False))
    assert again == settings
    assert law_from_json(law_json(again.law)) == settings.law


def test_settings_of_ca_are_saved_as_before():
    text = json.dumps(dataclasses.asdict(ParticleSettings()))
    assert ParticleSettings(repulsion=" 1 / r") == ParticleSettings()
    saved = simulate(ParticleSettings(n=3), runs=1, steps=1, progress=False)
    assert set(json.loads(saved.attrs["config_json"])) == set(json.loads(text)) - {
        "attraction",
        "repulsion",
        "alignment",
        "law",
        "temperature",
        "method",
        "accuracy",
    }


def test_a_table_of_a_file_becomes_part_of_the_settings(tmp_path):
    path = tmp_path / "law.csv"
    path.write_text("r,f\n2,0.5\n1,1\n")
    settings = ParticleSettings(repulsion=str(path))
    assert settings.repulsion == "interp(r, [1, 2], [1, 0.5])"


# --------------------------------------------------------------------------- refusals


NAMES = ["r"]


def two_arguments(r, k=2.0):
    return k * r


def inner_function(r):
    def inner(x):
        return SCALE * x

    return inner(r)


def attribute_of_a_module(r):
    return sys.maxsize * r


def other_table(r):
    return len(NAMES) * r


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"repulsion": "1/x"}, "repulsion"),
        ({"alignment": "r"}, "alignment"),
        ({"repulsion": "missing.csv"}, "repulsion"),
        ({"temperature": -1}, "temperature"),
        ({"law": CA, "repulsion": "r"}, "law"),
        ({"law": (CA[0], CA[0])}, "law"),
        ({"law": (CA[1],)}, "against of unlike_repulsion"),
        ({"law": ("1/r",)}, "law"),
        ({"law": CA[0]}, "law"),
        ({"method": "mesh", "repulsion": "exp(-r)"}, "method"),
    ],
)
def test_laws_that_are_no_laws_are_refused(values, field):
    with pytest.raises(SettingsError) as refusal:
        ParticleSettings(**values)
    assert str(refusal.value).startswith(field)


@pytest.mark.parametrize(
    "values",
    [
        {"name": "1x"},
        {"pairs": "some"},
        {"along": "r"},
        {"strength": "c"},
        {"constant": float("nan")},
        {"constant": "n"},
        {"balance": "weight"},
        {"strength": other_table},
        {"strength": lambda r: r},
        {"strength": two_arguments},
        {"strength": inner_function},
        {"strength": attribute_of_a_module},
        {"against": "nobody", "balance": "count"},
        {"against": ["a"]},
        {"strength": math.exp},
    ],
)
def test_forces_that_are_no_forces_are_refused(values):
    good = {"name": "a", "pairs": "all", "along": "difference", "strength": "r"}
    Force(**good)
    with pytest.raises(SettingsError):
        check_law([Force(**(good | values))])


@pytest.mark.parametrize("strength", ["log(r - 3)", "1/(r - r)", "exp(exp(9*r))"])
def test_a_strength_without_a_value_at_a_distance_that_occurs_is_refused(strength):
    with pytest.raises(SettingsError, match="not finite at r ="):
        simulate(ParticleSettings(n=7, repulsion=strength), runs=2, progress=False)


FACTOR = 1.0


def scaled(r):
    return FACTOR * r


def test_an_own_function_keeps_the_numbers_that_it_refers_to(monkeypatch):
    first = Force("scaled", "like", "difference", scaled)
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 5.0)
    second = Force("scaled", "like", "difference", scaled)
    assert first.strength != second.strength
    x = np.random.default_rng(0).standard_normal((4, 1))
    fields = [force_fields(x, law=(force,)).force for force in (first, second)]
    assert_allclose(fields[1], 5 * fields[0])


def test_an_own_function_that_cannot_be_compiled_is_refused():
    def text_of(r):
        return str(r) + "1"

    law = (Force("text", "all", "difference", text_of),)
    with pytest.raises(SettingsError, match="Numba"):
        simulate(ParticleSettings(n=3, law=law), runs=1, steps=1, progress=False)


@pytest.mark.parametrize("name", ["fa", "ga", "gr", "repulsion_balance"])
@given(named=st.booleans(), data=st.data())
def test_a_setting_that_no_force_names_is_refused(name, named, data):
    """A value of its own, in settings, sweeps and audits; its default stays out of the
    words of the settings."""
    is_balance = name.endswith("balance")
    value = "none" if is_balance else data.draw(st.floats(1.5, 9))
    own = {"balance": name, "against": "a"} if is_balance else {"constant": name}
    second = Force("b", "unlike", "difference", "1/r", **(own if named else {}))
    law = (Force("a", "like", "difference", "-1"), second)
    if named:
        settings = ParticleSettings(law=law, **{name: value})
        assert name not in settings.unused_settings
        return
    with pytest.raises(SettingsError, match=f"{name}: found {value}, .* no force"):
        ParticleSettings(law=law, **{name: value})
    assert "f_a" not in describe_settings(ParticleSettings(law=law))


def test_an_own_function_of_another_process_is_named():
    law = (Force("far", "all", "difference", "far@0123456789ab(r)"),)
    settings = ParticleSettings(n=3, law=law)
    with pytest.raises(SettingsError, match="far@0123456789ab"):
        simulate(settings, runs=1, steps=1, progress=False)


def test_pairs_of_a_network_interact_by_the_law_given():
    pairs = all_pairs(5)[::2]
    settings = ParticleSettings(n=5, repulsion="1/r**3")
    x = np.random.default_rng(0).standard_normal((1, 5, 2))
    system = ParticleSystem(settings, pairs=pairs)
    ca = ParticleSystem(ParticleSettings(n=5), pairs=pairs)
    assert not np.allclose(system.force(x)[0], ca.force(x)[0])
