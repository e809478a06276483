"""Particles on a CUDA device, in Numba's simulator: against plain loops and the CPU, and
the bits of a run."""

import dataclasses
import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import ParticleSettings, SettingsError, branch, replay, simulate, system
from dynamics.expressions import parse_expression
from dynamics.forces import CA, Force
from dynamics.kernels import cuda_launching
from dynamics.particles import ParticleSystem, cuda_particles
from dynamics.particles.cuda_forces import _compile, _DeviceSourceText
from dynamics.particles.cuda_particles import DeviceParticles, particle_plan
from dynamics.particles.force_terms import radial_lines
from dynamics.strengths import evaluate
from tests import naive
from tests.dynamics.particles.test_particle_system import same, settings_of_all_kinds
from tests.laws import (
    OWN_LAW,
    count_interactions,
    fields_by_loops,
    laws,
    settings_with_law,
)


def own_strength(r):
    return math.exp(-r) / (1 + r * r)


def device_system(s, threads=3, in_blocks=True, pairs=None):
    """The system on a device, with few threads in a block, as the simulator is slow."""
    particles = ParticleSystem(s, "cpu", pairs)
    count = len(particles.pairs.first)
    plans = tuple(
        particle_plan(s, count, in_shared)._replace(threads=threads)
        for in_shared in (True, False)
    )
    device = DeviceParticles(s, particles.pairs, particles._parameters, plans)
    device.runs_in_blocks = lambda runs: in_blocks
    particles.device = "cuda"
    particles.device_particles = device
    return particles


@settings(max_examples=12)
@given(
    s=settings_of_all_kinds,
    n=st.integers(2, 4),
    seed=st.integers(0, 1000),
    threads=st.integers(1, 5),
    in_blocks=st.booleans(),
)
def test_a_step_is_that_of_the_plain_loops(s, n, seed, threads, in_blocks):
    s = dataclasses.replace(s, n=n)
    particles = device_system(s, threads, in_blocks)
    before = particles.initial(np.array([seed]))
    after = particles.advance(before, 1)
    force = naive.total_force(before.embedding[0], s)
    scale = np.abs(force).max() + 1e-12
    assert_allclose(particles.force(before.embedding)[0][0], force, atol=1e-10 * scale)
    assert_allclose(
        before.gradient_norm, np.sqrt((force**2).sum()), rtol=1e-9, atol=1e-10 * scale
    )
    assert_array_equal(after.gradient_norm, before.gradient_norm)
    assert after.last_step == 1
    # directions amplify the rounding of a force that is nearly zero
    least = np.sqrt((force**2).sum(axis=1)).min()
    if s.step_rule != "particle" or least > 1e-6 * scale:
        tolerance = 1e-9 * (1 + 1 / max(least, 1e-3))
        expected = naive.step(before.embedding[0], s)
        assert_allclose(after.embedding[0], expected, atol=tolerance)
        moved = np.sqrt(((expected - before.embedding[0]) ** 2).sum())
        assert_allclose(after.update_norm, moved, atol=tolerance * s.n)


def plain_force(x, s):
    """The balanced force of a law on one embedding, in plain loops."""
    pairs = naive.pairs_of(s.n, s.diagonal != "none")
    fields, magnitudes = fields_by_loops(x, np.array(pairs), s.forces)
    places = {force.name: place for place, force in enumerate(s.forces)}
    counts = [
        count_interactions(np.array(pairs), s.n, force.pairs) for force in s.forces
    ]
    total = np.zeros_like(x)
    for place, force in enumerate(s.forces):
        other, weight = places.get(force.against, place), 1.0
        rule = s.balance_of(force)
        if rule != "none":
            sizes = magnitudes if rule == "magnitude" else counts
            weight = sizes[other] / sizes[place] if sizes[place] > 0 else 0.0
        total += s.constant_of(force) * weight * fields[place]
    return total


def assert_steps_of_plain_loops(s, seed, in_blocks):
    particles = device_system(s, in_blocks=in_blocks)
    state = particles.initial(np.array([seed]))
    for _ in range(2):
        x = state.embedding[0]
        force = plain_force(x, s)
        assert_allclose(
            particles.force(x[None])[0][0],
            force,
            atol=1e-10 * (np.abs(force).max() + 1),
        )
        state = particles.advance(state, 1)
        expected = naive.normalise(x + s.step_size * force, s.variance)
        assert_allclose(state.embedding[0], expected, atol=1e-9)


@settings(max_examples=8)
@given(
    law=laws(),
    dim=st.integers(2, 3),
    seed=st.integers(0, 1000),
    in_blocks=st.booleans(),
)
def test_steps_of_other_laws_are_those_of_the_plain_loops(law, dim, seed, in_blocks):
    s = settings_with_law(law, n=4, dim=dim, fa=2.0)
    assert_steps_of_plain_loops(s, seed, in_blocks)


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize(
    ("law", "dim"),
    [(OWN_LAW, 1), ((*CA, Force("own", "all", "difference", own_strength)), 2)],
)
def test_functions_of_the_user_and_forces_on_a_line(law, dim, in_blocks):
    assert_steps_of_plain_loops(ParticleSettings(n=4, dim=dim, law=law), 0, in_blocks)


def test_noise_is_that_of_a_cpu():
    """With a new block of random numbers after 64 steps."""
    s = ParticleSettings(n=3, temperature=0.3)
    here, there = ParticleSystem(s, "cpu"), device_system(s)
    state = here.advance(here.initial(np.arange(2)), 63)
    expected = here.advance(state, 2).embedding
    assert_allclose(there.advance(state, 2).embedding, expected, atol=1e-9)


@pytest.mark.parametrize("pairs", [[(0, 1), (1, 1), (1, 2)], np.empty((0, 2), int)])
def test_only_given_pairs_of_tokens_interact(pairs):
    s = ParticleSettings(n=3, variance="none")
    here = ParticleSystem(s, "cpu", np.array(pairs))
    state = here.initial(np.arange(2))
    expected = here.advance(state, 1).embedding
    for in_blocks in (True, False):
        there = device_system(s, in_blocks=in_blocks, pairs=np.array(pairs))
        assert_allclose(there.advance(state, 1).embedding, expected, atol=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        *("exp(r)", "log(r - 1)", "sqrt(r - 1)", "r**-2.5", "r**7 - r**0.3 + pi"),
        *("(r - 1)**3.0", "(r - 1)**71", "(r - 1)**70", "abs(r - 1)", "r/(r - 1)"),
        *("min(r, 1) + max(r, 2)", "where(r <= 1, r, -r)", "(r > 1) + (r >= 1)*2"),
        "interp(r, [0.5, 1, 3, 5], [1, 0, 2, -1])",
    ],
)
def test_strengths_of_a_device_are_those_of_numpy(text):
    """Also where they are infinite or not defined."""
    expression = parse_expression(text, "r")
    numbers = []
    source = _DeviceSourceText(numbers)
    lines = radial_lines(expression, source)
    strength = _compile("square", lines, source.names)
    r = np.array([1e-3, 0.5, 1.0, 1.5, 2.0, 4.0, 6.0, 800.0])
    expected = evaluate(expression, r)
    tables = np.array(numbers)
    with np.errstate(all="ignore"):
        factor, magnitude = np.transpose([strength(x * x, tables) for x in r])
    assert_allclose(factor * r, expected, rtol=1e-12)
    assert_allclose(magnitude, np.abs(expected), rtol=1e-12)


NOISY = ParticleSettings(n=3, fa=2.0, temperature=0.1)


@pytest.mark.parametrize("s", [dataclasses.replace(NOISY, temperature=0.0), NOISY])
def test_the_bits_of_a_run_depend_on_that_run_alone(s):
    """Not on other runs, on the number of threads, on the division into launches and
    calls, and on whether one block computes it or several; the noise begins anew after
    64 steps."""
    together = device_system(s)
    first = together.advance(together.initial(np.arange(3)), 60)
    expected = together.advance(first, 7)
    assert expected.last_step.tolist() == [67] * 3
    for threads, in_blocks in ((1, True), (4, False)):
        alone = device_system(s, threads, in_blocks)
        checkpoint = together.checkpoint(first)
        rows = {name: np.atleast_1d(values)[-1:] for name, values in checkpoint.items()}
        alone.device_particles.launches.updates = 2
        state = alone.advance(alone.restore({**rows, "step": 60}), 2)
        state = alone.advance(state, 5)
        assert same(state, expected, slice(2, 3))


def test_runs_in_the_memory_of_a_device_may_be_divided(monkeypatch):
    monkeypatch.setattr(cuda_particles, "RESIDENT_THREADS", 15)
    s = dataclasses.replace(NOISY, n=4)
    expected, divided = device_system(s), device_system(s, in_blocks=False)
    state = expected.initial(np.arange(3))
    assert same(divided.advance(state, 2), expected.advance(state, 2))


@pytest.mark.parametrize("in_blocks", [True, False])
def test_a_run_that_diverges_keeps_its_state_and_leaves_the_others_alone(in_blocks):
    s = ParticleSettings(
        n=3,
        variance="none",
        step_size=1e6,
        law=(Force("grow", "all", "difference", "r"),),
    )
    system = device_system(s, in_blocks=in_blocks)
    state = system.initial(np.arange(2))
    state.embedding[1] = 0.0
    x, last_step, norms = state.embedding[0], 0, (0.0, 0.0)
    while True:
        force = plain_force(x, s)
        moved = naive.normalise(x + s.step_size * force, s.variance)
        if max(np.linalg.norm(force), np.linalg.norm(moved)) > 1e38:
            break
        norms = np.linalg.norm(force), np.linalg.norm(moved - x)
        x, last_step = moved, last_step + 1
    for steps in (last_step + 2, 2):
        state = system.advance(state, steps)
        assert state.last_step.tolist() == [last_step, state.step]
        assert_allclose(state.embedding[0], x, rtol=1e-9)
        found = state.gradient_norm[0], state.update_norm[0]
        assert_allclose(found, norms, rtol=1e-9)
        assert (state.embedding[1] == 0).all()
    assert last_step > 1


@pytest.fixture
def simulated_device(monkeypatch):
    """A CUDA device, which is Numba's simulator."""
    monkeypatch.setattr(system, "numba_finds_cuda", lambda: True)
    monkeypatch.setattr(cuda_particles, "device_memory", lambda: 2**30)
    monkeypatch.setattr(cuda_particles, "MAX_THREADS", 6)
    monkeypatch.setattr(cuda_particles, "block_threads", lambda pairs: 6)


def test_a_file_names_its_device_and_is_continued_on_it(simulated_device):
    options = {"runs": 2, "every": 2, "device": "cuda", "progress": False}
    whole = simulate(NOISY, steps=6, **options)
    assert whole.attrs["device"] == "cuda"
    assert "backend" not in whole.attrs
    simulate(NOISY, steps=4, out="a.nc", **options).close()
    longer = simulate(NOISY, steps=6, out="a.nc", **{**options, "device": "auto"})
    assert longer.load().attrs["device"] == "cuda"
    xr.testing.assert_equal(longer.drop_attrs(), whole.drop_attrs())
    repeated = replay("a.nc", 1, 2, 6)
    assert_array_equal(
        repeated["embedding"].sel(step=6)[0], whole["embedding"].sel(step=6)[1]
    )
    changed = branch("a.nc", 4, until=6, temperature=0.0, progress=False)
    assert changed.attrs["device"] == "cuda"


def test_forces_that_only_a_cpu_can_compile_are_refused(simulated_device, monkeypatch):
    def launch(self, blocks, *arguments):
        raise cuda_particles.NumbaError("no such function\nin two lines")

    monkeypatch.setattr(cuda_launching.BlockLauncher, "launch", launch)
    with pytest.raises(SettingsError, match=r"cuda, allowed is cpu: .*\(no such func"):
        simulate(NOISY, runs=1, steps=1, device="cuda", progress=False)


@pytest.mark.parametrize(
    ("n", "runs", "in_blocks"),
    [(17, 1, True), (29, 1, False), (29, 200, True), (59, 200, False)],
)
def test_a_block_advances_small_runs_and_those_of_large_ensembles(n, runs, in_blocks):
    s = ParticleSettings(n=n)
    device = ParticleSystem(s, "cpu").device_particles
    assert device.runs_in_blocks(runs) == in_blocks


def test_an_ensemble_takes_no_more_memory_than_estimated(monkeypatch):
    s = dataclasses.replace(NOISY, n=29)
    particles, taken = ParticleSystem(s, "cpu"), []

    def to_device(values):
        taken.append(values.nbytes)
        return kept(values)

    kept = cuda_particles.cuda.to_device
    monkeypatch.setattr(cuda_particles.cuda, "to_device", to_device)
    monkeypatch.setattr(cuda_particles.BlockLauncher, "launch", lambda *arguments: None)
    device = particles.device_particles
    noise = np.zeros((4, 8, 29, 2))
    device.run(noise[:, 0], 8, np.ones((4, 4)), noise)
    estimated = cuda_particles.working_bytes(s, len(particles.pairs.first), 4, 8)
    assert sum(taken) <= estimated < 1.2 * sum(taken)
