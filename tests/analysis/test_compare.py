"""Comparisons of trajectories, whatever system they are from."""

import csv
import io

import numpy as np
import pytest
import xarray as xr
from matplotlib.image import imread

from analysis import compare, table1
from analysis.output.results import check_result_path, write_result
from analysis.reproduction import ca_tables
from analysis.structures.circles_and_grids import circles, count_imperfections, grid_imperfections, is_circle
from analysis.structures.comparison import SIDES, _circle_test, _location_test, compare_trajectories, comparison_lines
from analysis.structures.embedding_motion import (
    departure_times,
    embedding_displacement,
    embedding_speed,
    on_normalised_time,
)
from analysis.structures.procrustes import end_shape_distances
from dynamics.errors import TrajectoryError
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError
from dynamics.simulation import simulate
from dynamics.trajectory.recorder import save_trajectory
from tests.test_commands import here  # noqa: F401 - a fixture

NETWORK = ModularSettings(n=7, hidden=9)


@pytest.fixture
def network():
    return simulate(NETWORK, runs=6, steps=60, every=10, out="a.nc", progress=False)


@pytest.fixture
def particles():
    return simulate(ParticleSettings(n=7), runs=4, seed=2, steps=30, out="b.nc", progress=False)


@pytest.mark.parametrize("which", ["network", "particles"])
def test_either_system_goes_through_everything_that_reads_embeddings_or_norms(which, request):
    trajectory = request.getfixturevalue(which)
    for function in (circles, grid_imperfections, embedding_speed, embedding_displacement):
        found = function(trajectory)
        assert found.sizes["run"] == trajectory.sizes["run"]
        assert found.sizes["step"] == trajectory.sizes["step"]
    assert on_normalised_time(embedding_displacement(trajectory)).sizes["normalised_time"] == 101
    assert np.isfinite(departure_times(trajectory)).all()
    np.testing.assert_allclose(np.diag(end_shape_distances(trajectory, trajectory)), 0, atol=1e-6)
    same = compare_trajectories(trajectory, trajectory)
    assert same.attrs["paired"] == 1
    for line in comparison_lines(same):
        if (
            line.test in ("Fisher", "Mann-Whitney")
            and np.isfinite(line.p_value)
            and line.second
            and "pairs" not in line.name
        ):
            assert line.p_value == 1
    np.testing.assert_array_equal(same["speed"].sel(side="first"), same["speed"].sel(side="second"))


def test_the_numbers_are_those_of_the_trajectories(network, particles):
    found = compare_trajectories(network, particles)
    for side, trajectory in (("first", network), ("second", particles)):
        ends = trajectory["embedding"].isel(step=-1).values
        np.testing.assert_array_equal(found[f"{side}_circle"], is_circle(ends))
        np.testing.assert_array_equal(found[f"{side}_imperfections"], count_imperfections(ends))
        force = trajectory["gradient_norm"].sel(layer="embedding")
        last = found["gradient_norm"].sel(side=side, quantile=0.5, normalised_time=1)
        np.testing.assert_allclose(last, np.median(force.isel(step=-1)), rtol=1e-6)
    assert found["between"].shape == (6, 4)
    np.testing.assert_allclose(found["within_first"], found["within_first"].values.T, atol=1e-9)
    assert np.isnan(np.diag(found["within_second"])).all()
    assert found.attrs["paired"] == 0
    table = {line.name: line for line in comparison_lines(found)}
    others = [found[f"{side}_imperfections"].where(found[f"{side}_circle"] == 0) for side in SIDES]
    np.testing.assert_allclose(table["imperfections of the others"].first.value, others[0].mean())
    np.testing.assert_allclose(table["imperfections of the others"].second.value, others[1].mean())


def test_pairs_are_found_and_matter(network):
    """Particles begun at the networks' first embeddings, against a second set begun elsewhere."""
    twin = simulate(ParticleSettings(n=7, start="a.nc"), runs=6, steps=50, progress=False)
    other = simulate(ParticleSettings(n=7), runs=6, steps=50, progress=False)
    assert compare_trajectories(network, twin).attrs["paired"] == 1
    assert compare_trajectories(network, other).attrs["paired"] == 0
    same = {line.name: line for line in comparison_lines(compare_trajectories(twin, twin))}
    assert same["nearest is own partner; unpaired"].first.value == 1
    assert same["shape distance of pairs; unpaired"].p_value < 0.05
    assert same["shape distance of pairs; unpaired"].first.value < 1e-6


def test_a_run_that_diverged_is_left_out(network, particles):
    ill = network.copy()
    ill["last_step"] = network["last_step"].copy(data=[60, 30, 60, 60, 60, 60])
    found = compare_trajectories(ill, particles)
    for name in ("first_circle", "first_imperfections", "first_escape"):
        np.testing.assert_array_equal(np.isnan(found[name]), [False, True, False, False, False, False])
    assert np.isnan(found["between"][1]).all()
    assert np.isfinite(found["between"].isel(first_run=[0, 2, 3, 4, 5])).all()
    assert np.isfinite(comparison_lines(found)[0].first.value)
    none = network.copy()
    none["last_step"] = network["last_step"].copy(data=[30] * 6)
    assert all(np.isnan(line.p_value) for line in comparison_lines(compare_trajectories(none, particles)))


def test_what_cannot_be_compared_is_an_error(network):
    with pytest.raises(TrajectoryError, match="token: found 7 and 5"):
        compare_trajectories(network, simulate(ParticleSettings(n=5), runs=2, steps=3, progress=False))
    with pytest.raises(TrajectoryError, match="found a single frame"):
        compare_trajectories(network, simulate(NETWORK, runs=2, steps=0, progress=False))
    with pytest.raises(TrajectoryError, match="record=metrics"):
        compare_trajectories(network, simulate(NETWORK, runs=2, steps=3, record="metrics", progress=False))


def test_results_are_whole_and_never_written_over_trajectories(network, tmp_path):
    tmp_path.joinpath("text.nc").write_text("mine")
    what = {"result_of": "test", "first": "a.nc"}
    result = xr.Dataset({"x": ("run", [1.0, np.nan])}, attrs=what)
    result.drop_attrs().to_netcdf("precious.nc")
    result.assign_attrs(first="b.nc").to_netcdf("other.nc")
    for name in ("a.nc", "text.nc", "precious.nc", "other.nc", "result.txt"):
        with pytest.raises(SettingsError, match="out: found"):
            check_result_path(tmp_path / name, what)
    for _ in range(2):
        write_result(result, check_result_path(tmp_path / "deep" / "r.nc", what))
    with xr.open_dataset(tmp_path / "deep" / "r.nc") as found:
        np.testing.assert_array_equal(found["x"], result["x"])
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["r.nc"]


# ------------------------------------------------------------------------------------------- the commands


def run(program, monkeypatch, capsys, *words):
    from analysis.command_line.parsing import run_command

    monkeypatch.setattr("sys.argv", [program.__name__, *map(str, words)])
    run_command(program.main, program.Options, program.__name__)
    return capsys.readouterr()


def test_the_command_makes_the_partner_and_leaves_table_picture_and_file(network, monkeypatch, capsys, tmp_path):
    said = run(compare, monkeypatch, capsys, "a.nc", "--steps", 20, "--fa", 2, "--out", "c.nc")
    assert "pairs of one structure" in said.out
    assert "Force audit" in said.out
    assert imread(tmp_path / "c.png").shape[0] > 500
    with xr.open_dataset("c.nc") as result:
        assert {"first_circle", "between", "audit_cosine", "audit_coefficient"} <= set(result.variables)
        assert '"fa": 2.0' in result.attrs["law"]
    again = run(compare, monkeypatch, capsys, "a.nc", "--steps", 20, "--fa", 2, "--out", "c.nc", "--csv", "-")
    table = list(csv.DictReader(io.StringIO(again.out)))
    assert table[0]["quantity"] == "circles, share"
    assert 0 <= float(table[0]["first"]) <= 1


def test_the_partner_is_as_long_as_was_asked(network, monkeypatch, capsys):
    tables = {}
    for steps in (5, 60, 5):
        found = run(compare, monkeypatch, capsys, "a.nc", "--steps", steps, "--csv", "-").out
        assert tables.setdefault(steps, found) == found
    assert tables[5] != tables[60]


def test_pairs_are_tested_as_pairs():
    a = np.array([1.0] * 20 + [0.0] * 80)
    b = np.array([1.0] * 30 + [0.0] * 70)
    p_value, test = _circle_test(a, b, paired=True)
    assert test == "McNemar"
    np.testing.assert_allclose(p_value, 2 * 0.5**10)
    assert _circle_test(a, b, paired=False)[0] > 0.1
    assert _circle_test(a, a, paired=True)[0] == 1
    x = np.random.default_rng(1).normal(size=100)
    assert _location_test(x, x + 0.01, paired=True) == (pytest.approx(0, abs=1e-9), "Wilcoxon")
    assert _location_test(x, x + 0.01, paired=False)[0] > 0.5
    assert _location_test(x, x, paired=True)[0] == 1


def test_particles_are_not_begun_where_seeds_are_missing(network, here):  # noqa: F811
    save_trajectory(network.isel(run=[0, 2]), "sel.nc")
    code, error = here("analysis.compare", "sel.nc")
    assert (code, "seeds do not follow one another" in error) == (1, True)


def test_two_particle_systems_are_compared_without_an_audit(particles, monkeypatch, capsys):
    simulate(ParticleSettings(n=7, fa=3.0), runs=3, steps=20, out="c.nc", progress=False)
    said = run(compare, monkeypatch, capsys, "b.nc", "c.nc")
    assert "Force audit" not in said.out
    assert "comparisons/b-c.png" in said.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("none.nc",), 1, "none.nc: no such file"),
        (("a.nc", "none.nc"), 1, "no such file"),
        (("a.nc", "a.nc", "--out", "x.txt"), 2, "--out: found x.txt"),
        (("a.nc", "a.nc", "--out", "a.nc"), 2, "--out: found a.nc"),
        (("a.nc", "--fa", "-1"), 2, "fa"),
        (("a.nc", "--start", "a.nc"), 2, "--start: found a.nc"),
        (("a.nc", "--n", "9"), 2, "--n: found 9"),
        (("a.nc", "a.nc", "--steps", "9"), 2, "--steps: found 9"),
        ((), 2, "missing"),
    ],
)
def test_mistakes_are_told(network, here, words, code, said):  # noqa: F811
    found, error = here("analysis.compare", *words)
    assert found == code
    assert said.lower() in error.lower()


def test_table_1_and_its_csv(monkeypatch, capsys):
    said = run(table1, monkeypatch, capsys, "--runs", 4, "--epochs", 30, "--n", 5)
    assert said.out.count(" here ") == 4
    assert " paper " not in said.out  # nothing of the paper's beside other settings
    again = run(table1, monkeypatch, capsys, "--runs", 4, "--epochs", 30, "--n", 5, "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(again.out)))
    assert [float(row["weight_decay"]) for row in rows] == [0, 0.3, 0.6, 1]
    assert all(int(row["circles"]) + int(row["others"]) == 4 for row in rows)


def test_the_paper_stands_beside_its_own_settings_only():
    assert ca_tables.is_printed_network_row(ModularSettings(weight_decay=0.3), 2000)
    assert not ca_tables.is_printed_network_row(ModularSettings(weight_decay=0.3), 1000)
    assert not ca_tables.is_printed_network_row(ModularSettings(weight_decay=0.5), 2000)
    assert not ca_tables.is_printed_network_row(ModularSettings(weight_decay=0.3, hidden=64), 2000)


def test_an_outcome_is_that_of_its_runs(generator):
    angle = 2 * np.pi * np.arange(7) / 7
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    ends = np.concatenate([[circle, 2 * circle], generator.normal(size=(5, 7, 2))])
    accuracy = np.array([0.9, 0.7, 0.1, 0.2, 0.3, 0.4, 0.5])
    found = ca_tables.network_outcome(ends, accuracy)
    assert (found.runs, found.circles, found.others) == (7, 2, 5)
    np.testing.assert_allclose([found.circle_accuracy.value, found.other_accuracy.value], [0.8, 0.3])
    expected = np.corrcoef(count_imperfections(ends[2:]), accuracy[2:])[0, 1]
    np.testing.assert_allclose(found.correlation.value, expected)
    assert found.correlation.low < expected < found.correlation.high
    empty = ca_tables.network_outcome(ends[:0], accuracy[:0])
    assert np.isnan(empty.correlation.value)


@pytest.mark.parametrize(
    "settings",
    [ModularSettings(n=1, train_share=1.0), ModularSettings(n=2, dim=1), ModularSettings(n=5, optimizer="sgd", lr=1e6)],
)
def test_odd_networks_are_compared_with_their_particles(settings, monkeypatch, capsys, tmp_path):
    """One token, two tokens, and an ensemble of which nothing is left."""
    simulate(settings, runs=3, steps=20, every=5, out="odd.nc", progress=False)
    said = run(compare, monkeypatch, capsys, "odd.nc")
    assert "circles, share" in said.out
    assert ("3 diverged and left out" in said.out) == (settings.optimizer == "sgd")
    assert "nan" not in said.out
    run(compare, monkeypatch, capsys, "odd.nc", "odd.nc")


@pytest.mark.parametrize("words", [("a.nc", "--csv", "a.nc"), ("a.nc", "--csv", "."), ("a.nc", "--csv", "x.png")])
def test_a_csv_never_takes_the_place_of_something_else(network, here, words, tmp_path):  # noqa: F811
    before = (tmp_path / "a.nc").read_bytes()
    code, error = here("analysis.compare", *words)
    assert (code, error.startswith("error: --csv: found")) == (2, True)
    assert (tmp_path / "a.nc").read_bytes() == before


def test_the_csv_is_not_the_start(here):  # noqa: F811
    np.savetxt("start.csv", np.random.default_rng(0).normal(size=(5, 2)), delimiter=",")
    code, error = here("sims.particles", "--n", "5", "--start", "start.csv", "--csv", "start.csv")
    assert code == 2
    assert "another file" in error


def test_errors_name_the_options_there_are(network, here):  # noqa: F811
    for program in ("analysis.table1", "analysis.audit", "sims.modular"):
        code, error = here(program, "--epochs", "-1", "--n", "5")
        assert (code, "--epochs: found -1" in error) == (2, True)
    for words in ((".",), ("",)):
        assert here("analysis.compare", *words)[0] == 1
