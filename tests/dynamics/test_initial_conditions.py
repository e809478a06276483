"""A given start: from trajectories and tables, pinned by content."""

import numpy as np
import pytest

from dynamics.run_checks import run_path
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.simulation import simulate
from dynamics.trajectory.schema import read_settings


def particles(start, **changes):
    return ParticleSettings(**{"n": 5, "start": str(start), "variance": "none", **changes})


def begin(settings, **amount):
    return simulate(settings, **{"runs": 2, "steps": 2, **amount})


@pytest.fixture
def x(generator):
    values = generator.standard_normal((4, 5, 2))
    return values - values.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("name", ["x.npy", "x.csv"])
def test_one_embedding_for_all_runs(x, tmp_path, name):
    if name == "x.npy":
        np.save(tmp_path / name, x[0])
    else:  # a row for each token
        np.savetxt(tmp_path / name, x[0], delimiter=",", fmt="%.17g")
    found = begin(particles(tmp_path / name))["embedding"].sel(step=0)
    np.testing.assert_allclose(found, [x[0], x[0]], atol=1e-15)


def test_one_embedding_for_each_seed(x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    found = begin(particles(tmp_path / "x.npy"), seed=2)["embedding"].sel(step=0)
    np.testing.assert_allclose(found, x[2:], atol=1e-15)
    with pytest.raises(SettingsError, match="start: found shape"):
        begin(particles(tmp_path / "x.npy"), seed=3)


def test_the_start_is_normalised_like_everything_after_it(x, tmp_path):
    np.save(tmp_path / "x.npy", 7 * x[0] + 3)
    found = begin(particles(tmp_path / "x.npy", variance="overall"))["embedding"]
    np.testing.assert_allclose(found.mean("token"), 0, atol=1e-14)
    np.testing.assert_allclose((found**2).mean(["token", "axis"]), 1)


def test_the_run_of_the_same_seed_at_any_recorded_step(tmp_path):
    source = begin(ParticleSettings(n=5), runs=4, steps=8, every=4, out=tmp_path / "a.nc")
    for start_step, step in ((0, 0), (4, 4), (-1, 8)):
        settings = particles(tmp_path / "a.nc", start_step=start_step)
        found = begin(settings, seed=2)["embedding"].sel(step=0)
        np.testing.assert_allclose(found, source["embedding"].sel(step=step)[2:], atol=1e-14)
    with pytest.raises(SettingsError, match="start_step: found 3"):
        begin(particles(tmp_path / "a.nc", start_step=3))
    with pytest.raises(SettingsError, match="start: found no run of seed 4"):
        begin(particles(tmp_path / "a.nc"), seed=3)


def test_a_start_is_identified_by_its_content(x, tmp_path):
    for name in ("x.npy", "same.npy"):
        np.save(tmp_path / name, x[0])
    np.save(tmp_path / "other.npy", x[1])
    paths = [run_path(particles(tmp_path / name), 2, 0) for name in ("x.npy", "same.npy", "other.npy")]
    assert paths[0] == paths[1] != paths[2]
    begin(particles(tmp_path / "x.npy"), out=tmp_path / "run.nc")
    begin(particles(tmp_path / "same.npy"), out=tmp_path / "run.nc", steps=4)
    with pytest.raises(SettingsError, match="out: found"):
        begin(particles(tmp_path / "other.npy"), out=tmp_path / "run.nc")


def test_a_file_that_changed_since_is_refused_and_not_needed_to_go_on(x, tmp_path):
    np.save(tmp_path / "x.npy", x[0])
    written = begin(particles(tmp_path / "x.npy"), out=tmp_path / "run.nc")
    pinned = read_settings(written)
    np.save(tmp_path / "x.npy", x[1])
    with pytest.raises(SettingsError, match="has changed since"):
        begin(pinned)
    begin(pinned, out=tmp_path / "run.nc", steps=6)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("a.csv", text) for text in ("1,2\n3", "a,b\n", "", "nan,1\n" * 5, "1,2\n" * 4, "1,2,3\n" * 5)),
        *(("a.npy", text) for text in ("not numpy", "")),
    ],
)
def test_a_table_that_is_no_embedding_is_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(SettingsError) as error:
        begin(particles(tmp_path / name))
    assert error.value.field == "start"


def test_an_archive_a_pickle_and_a_header_that_promises_too_much_are_refused(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        np.savez(file, x=np.zeros((5, 2)))
    with (tmp_path / "b.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)})
    np.save(tmp_path / "c.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for name, message in (("a.npy", "start: .*archive"), ("b.npy", "start"), ("c.npy", "start")):
        with pytest.raises(SettingsError, match=message):
            begin(particles(tmp_path / name))


@pytest.mark.parametrize(
    "values",
    [np.ones((5, 2), dtype=complex), np.ones((5, 2), dtype=bool), np.full((5, 2), 1e-170), np.full((5, 2), 1e39)],
)
def test_numbers_that_are_not_real_or_too_small_or_large_are_refused(tmp_path, values):
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(SettingsError, match="start"):
        begin(particles(tmp_path / "a.npy"))


def test_a_trajectory_that_is_damaged_or_without_embedding_is_refused(tmp_path):
    begin(ParticleSettings(n=5), out=tmp_path / "m.nc", record="metrics")
    with pytest.raises(SettingsError, match=r"start: found .*m\.nc, which contains only metrics"):
        begin(particles(tmp_path / "m.nc"))
    (tmp_path / "m.nc").write_bytes((tmp_path / "m.nc").read_bytes()[:-5])
    with pytest.raises(SettingsError, match="start: found .*no seal"):
        begin(particles(tmp_path / "m.nc"))


def test_no_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "absent.npy", tmp_path):
        with pytest.raises(SettingsError, match="start"):
            begin(particles(path))
