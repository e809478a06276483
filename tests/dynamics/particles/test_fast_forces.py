"""Fast force sums against direct sums and plain loops, their accuracy, and the same
bits on any number of threads."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dynamics import TrajectoryError, branch, read_settings, replay, simulate
from dynamics.ensemble import Ensemble
from dynamics.kernels.compiling import numba_threads
from dynamics.particles import (
    ParticleSystem,
    fast_forces,
    force_fields,
    group_pairs,
    mesh_sums,
    split_kernels,
)
from dynamics.particles.fast_forces import fast_fields
from dynamics.particles.mesh_sums import Mesh
from dynamics.particles.point_cells import sort_for_near_sums
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.trajectory.description import check_same_run, identity_of
from tests import naive
from tests.polygons import polygon


def arrangement(kind, n, generator):
    """Positions (token, 2) of zero mean and unit spread, except those of the lattice,
    which are whole numbers."""
    side = int(np.ceil(n**0.5))
    grid = np.stack(np.divmod(np.arange(n), side), axis=1) - float(side // 2)
    if kind == "lattice":  # pair sums coincide exactly, and many are at right angles
        return grid
    drawn = generator.standard_normal((n, 2))
    x = {
        "random": drawn,
        "circle": polygon(n),
        "grid": grid + 1e-3 * drawn,
        "coincident": drawn[np.arange(n) % (n // 8 + 1)],
        "narrow": drawn * 0.03 + drawn[:, :1],  # along a diagonal
        "two scales": drawn * np.where(np.arange(n) % 3, 1.0, 1e-6)[:, None],
        "halo": drawn * np.where(np.arange(n) % 5, 0.003, 1.0)[:, None],
        "clusters": drawn[np.arange(n) % 2] + 0.002 * drawn,
    }[kind]
    return (x - x.mean(axis=0)) / x.std()


def assert_accurate(result, direct, accuracy):
    """Forces within the accuracy of the largest of their field, magnitudes within it;
    all but repulsion to rounding."""
    for field, tolerance in enumerate((1e-12, accuracy, 1e-12, 1e-12)):
        largest = np.linalg.norm(direct.force[field], axis=-1).max()
        assert_allclose(
            result.force[field], direct.force[field], rtol=0, atol=tolerance * largest
        )
        assert_allclose(
            result.magnitude[field], direct.magnitude[field], rtol=tolerance
        )


KINDS = (
    *("random", "circle", "grid", "lattice", "coincident", "narrow", "two scales"),
    *("halo", "clusters"),
)


ACCURACIES = {113: (1e-2, 1e-4, 1e-6, 1e-9, 1e-10), 199: (1e-6,), 257: (1e-6,)}
"""By number of particles."""


def accuracy_cases():
    """All arrangements of 113 particles; of more in turn, and all of them with `make
    test-all`."""
    for place, (n, accuracies) in enumerate(ACCURACIES.items()):
        for index, kind in enumerate(KINDS):
            fast = n == 113 or (index + place) % 3 == 0
            marks = [] if fast else [pytest.mark.slow]
            yield pytest.param(kind, n, accuracies, marks=marks)


@pytest.mark.parametrize(("kind", "n", "accuracies"), [*accuracy_cases()])
def test_errors_are_below_the_accuracy(kind, n, accuracies, generator):
    x, pairs = arrangement(kind, n, generator), group_pairs(n)
    direct = force_fields(x, pairs)
    for accuracy in accuracies:
        result = fast_fields(x, pairs, accuracy)
        assert_accurate(result, direct, accuracy)
        largest = np.linalg.norm(result.force[1], axis=-1).max()
        assert_allclose(result.force[:2].sum(axis=1), 0, atol=accuracy * largest)


def test_errors_with_regions_are_below_the_accuracy(generator, monkeypatch):
    """Regions are parts of a random cloud, where they would not pay."""
    meshes = []

    def halved_mesh(points, mesh, constants, least):
        spacing = mesh.spacing / 2
        margin = constants.window.shape[1] + constants.cutoff
        lengths = 2 * (np.ptp(points, axis=0) / spacing + margin)
        shape = mesh_sums.FINER_SIZES[np.searchsorted(mesh_sums.FINER_SIZES, lengths)]
        meshes.append(Mesh(tuple(shape), spacing, constants.cutoff * spacing, 1))
        return meshes[-1]

    monkeypatch.setattr(mesh_sums, "_finer_mesh", halved_mesh)
    x, pairs = arrangement("random", 83, generator), group_pairs(83)
    monkeypatch.setattr(mesh_sums, "DENSE", 8)
    assert_accurate(fast_fields(x, pairs, 1e-6), force_fields(x, pairs), 1e-6)
    assert meshes


@pytest.mark.parametrize(
    ("kind", "regions"), [("random", 0), ("circle", 0), ("halo", 1), ("clusters", 3)]
)
def test_only_dense_regions_have_finer_meshes(kind, regions, generator):
    x = arrangement(kind, 150, generator)
    points = (x[:, None] + x)[np.triu_indices(150)]
    constants = split_kernels.splitting(1e-6)
    mesh = mesh_sums.select_mesh(points, constants)
    cells = sort_for_near_sums(points, mesh.cutoff)
    parts, meshes = mesh_sums.select_regions(cells, mesh, constants)
    assert len(meshes) == regions == parts.regions.max()
    for number, finer in enumerate(meshes, 1):
        assert finer.cutoff == mesh.cutoff / 2**finer.halvings
        assert (parts.regions == number).sum() > 1000


@given(n=st.integers(1, 14), seed=st.integers(0, 2**32), twice=st.booleans())
@example(n=2, seed=229, twice=False)  # all pair sums coincide
def test_lattices_and_lists_of_pairs_are_those_of_plain_loops(n, seed, twice):
    generator = np.random.default_rng(seed)
    x = generator.integers(-1, 2, (n, 2)) + generator.choice(
        [0, 0.1]
    ) * generator.standard_normal((n, 2))
    listed = np.stack(np.triu_indices(n), axis=1)
    listed = listed[generator.random(len(listed)) < 0.8]
    result = fast_fields(x, group_pairs(n, listed, twice), 1e-9)
    force, magnitude = naive.fields(x, *np.ascontiguousarray(listed.T), n, twice)
    assert_allclose(result.force, force, atol=1e-9 * (np.abs(force).max() + 1))
    assert_allclose(result.magnitude, magnitude, rtol=1e-9)


def test_like_pair_sums_that_nearly_coincide_cost_no_digits(generator):
    x = generator.standard_normal((60, 2))
    x[1::2] = -x[::2] + 1e-13 * generator.standard_normal(
        (30, 2)
    )  # pair sums at the origin
    assert_accurate(fast_fields(x, group_pairs(60), 1e-6), force_fields(x), 1e-6)


def test_the_bits_do_not_depend_on_threads_or_on_other_runs(monkeypatch):
    monkeypatch.setattr(fast_forces, "MIN_PAIRS_FOR_THREADS", 0)
    system = ParticleSystem(ParticleSettings(n=61, fa=2.0, method="mesh"))
    state = system.initial(np.arange(3))
    together = system.advance(state, 3)
    with numba_threads(1):
        alone = system.advance(system.initial(np.array([1])), 3)
    assert_array_equal(alone.embedding[0], together.embedding[1])
    assert_array_equal(alone.gradient_norm[0], together.gradient_norm[1])


@pytest.mark.parametrize(("method", "version"), [("direct", 1), ("mesh", 2)])
def test_runs_with_fast_sums_have_a_numerics_version_of_their_own(method, version):
    settings = ParticleSettings(n=9, method=method)
    system = ParticleSystem(settings)
    assert system.numerics_version == version
    assert Ensemble(settings).identity["numerics_version"] == version
    assert system.working_bytes(1) > 0


@pytest.mark.parametrize("balance", ["magnitude", "count", "none"])
def test_steps_by_both_methods_agree(balance):
    """A start at zero steps has the norm of the force, too."""
    ends = []
    for method in ("direct", "mesh"):
        settings = ParticleSettings(
            n=23,
            method=method,
            accuracy=1e-9,
            repulsion_balance=balance,
            alignment_balance=balance,
        )
        system = ParticleSystem(settings)
        ends.append(system.advance(system.initial(np.arange(2)), 1))
    assert_allclose(ends[1].embedding, ends[0].embedding, atol=1e-8)
    assert_allclose(ends[1].gradient_norm, ends[0].gradient_norm, rtol=1e-8)
    assert_allclose(ends[1].update_norm, ends[0].update_norm, rtol=1e-7)


# ----------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("n", "dim", "uses_mesh"),
    [(127, 2, False), (128, 2, True), (997, 1, False), (997, 3, False)],
)
def test_auto_selects_by_number_in_the_plane(n, dim, uses_mesh):
    assert ParticleSettings(n=n, dim=dim).uses_mesh == uses_mesh


def test_saved_settings_name_method_and_accuracy_only_where_they_change_results():
    def saved(**changes):
        return json.loads(
            identity_of(ParticleSystem(ParticleSettings(**changes)).settings, 1, 0, 1)[
                "config_json"
            ]
        )

    assert saved().keys().isdisjoint({"method", "accuracy"})
    assert saved(n=997)["method"] == "tree"  # the former name, which files keep
    assert saved(method="mesh") == saved(method="tree")
    assert ParticleSettings(method="tree").method == "mesh"
    assert saved(accuracy=1e-8)["accuracy"] == 1e-8


@pytest.mark.parametrize(
    "changes",
    [
        *({"method": "mesh", "dim": dim} for dim in (1, 3)),
        *({"accuracy": accuracy} for accuracy in (0.5, 1e-20)),
    ],
)
def test_what_the_fast_sums_do_not_cover_is_refused(changes):
    with pytest.raises(SettingsError, match=next(iter(changes))):
        ParticleSettings(**changes)


@pytest.mark.parametrize("dim", [1, 3, 4])
def test_former_fast_sums_in_other_dimensions_open_but_are_not_continued(dim):
    """Their forces have other bits than direct sums."""
    trajectory = simulate(ParticleSettings(n=5, dim=dim), runs=1, steps=2)
    trajectory.attrs |= identity_of(
        ParticleSettings(n=5, dim=dim), 1, 0, 1, version=3 if dim == 1 else 2
    )
    config = json.loads(trajectory.attrs["config_json"]) | {"method": "tree"}
    trajectory.attrs["config_json"] = json.dumps(config)
    settings = read_settings(trajectory)
    assert settings.method == "direct"
    assert not settings.uses_mesh
    with pytest.raises(TrajectoryError, match="fast sums.* in two dimensions only"):
        replay(trajectory, 0, 0, 1)
    with pytest.raises(TrajectoryError, match="fast sums.* in two dimensions only"):
        branch(trajectory, step=1, fa=2.0)
    with pytest.raises(SettingsError, match="numerics_version=., method=tree"):
        check_same_run(Path("a.nc"), trajectory.attrs, Ensemble(settings, 1).identity)


def test_the_memory_needed_is_known_beforehand():
    assert ParticleSystem(ParticleSettings(n=997)).working_bytes(1) < 2**29
    assert ParticleSystem(ParticleSettings(n=20_000)).working_bytes(1) > 2**35


PEAK_OF_997 = """
import re
from pathlib import Path
import numpy as np
from dynamics.particles import ParticleSystem
from dynamics.settings import ParticleSettings
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
for n in (13, 997):
    before = peak()
    system = ParticleSystem(ParticleSettings(n=n, method="mesh"))
    system.initial(np.arange(1))
print(peak() - before, system.working_bytes(1))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="the peak memory is read from /proc"
)
def test_the_estimated_memory_is_at_most_half_more_than_what_is_used():
    ParticleSystem(ParticleSettings(n=13, method="mesh")).initial(
        np.arange(1)
    )  # compiled, which takes memory, too
    printed = subprocess.run(
        [sys.executable, "-c", PEAK_OF_997], capture_output=True, check=True, text=True
    ).stdout
    used, estimated = map(int, printed.split())
    assert used < estimated < 1.5 * used
