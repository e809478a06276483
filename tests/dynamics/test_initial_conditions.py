"""A given start: from trajectories and tables, pinned by content."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynamics import ParticleSettings, SettingsError, read_settings, run_path, simulate


def particles(start, **changes):
    return ParticleSettings(
        **{"n": 5, "start": str(start), "variance": "none", **changes}
    )


def begin(settings, **amount):
    return simulate(settings, **{"runs": 2, "steps": 2, **amount})


@pytest.fixture
def x(generator):
    values = generator.standard_normal((4, 5, 2))
    return values - values.mean(axis=1, keepdims=True)


def test_one_embedding_for_all_runs(x):
    np.save("x.npy", x[0])
    np.savetxt("x.csv", x[0], delimiter=",", fmt="%.17g")  # a row for each token
    for name in ("x.npy", "x.csv"):
        assert_allclose(
            begin(particles(name))["embedding"].sel(step=0), [x[0], x[0]], atol=1e-15
        )


def test_tables_with_other_separators_and_a_header_start_a_run(x, output_of):
    for separator in (",", ";", "\t", "  "):
        np.savetxt("x.txt", x[0], delimiter=separator, fmt="%.17g", header="x y")
        positions = begin(particles("x.txt"))["embedding"].sel(step=0)
        assert_allclose(positions, [x[0], x[0]], atol=1e-15)
    words = "--n 5 --runs 1 --steps 1 --start"
    assert "written: 1 runs" in output_of("sims.particles", *words.split(), "x.txt")
    Path("x.txt").write_text("x;y\n0,5;1\n")
    error = output_of("sims.particles", *words.split(), "x.txt", code=2)
    assert "start: found x.txt (line 2: '0,5' is no number" in error


def test_one_embedding_for_each_seed(x):
    np.save("x.npy", x)
    assert_allclose(
        begin(particles("x.npy"), seed=2)["embedding"].sel(step=0), x[2:], atol=1e-15
    )
    with pytest.raises(SettingsError, match="start: found shape"):
        begin(particles("x.npy"), seed=3)


def test_the_start_is_normalised_like_everything_after_it(x):
    np.save("x.npy", 7 * x[0] + 3)
    result = begin(particles("x.npy", variance="overall"))["embedding"]
    assert_allclose(result.mean("token"), 0, atol=1e-14)
    assert_allclose((result**2).mean(["token", "axis"]), 1)


def test_the_run_of_the_same_seed_at_any_recorded_step():
    source = begin(ParticleSettings(n=5), runs=4, steps=8, every=4, out="a.nc")
    for start_step, step in ((0, 0), (4, 4), (-1, 8)):
        result = begin(particles("a.nc", start_step=start_step), seed=2)[
            "embedding"
        ].sel(step=0)
        assert_allclose(result, source["embedding"].sel(step=step)[2:], atol=1e-14)
    for step, seed, told in (
        (3, 0, "start_step: found 3"),
        (0, 3, "start: found no run of seed 4"),
    ):
        with pytest.raises(SettingsError, match=told):
            begin(particles("a.nc", start_step=step), seed=seed)


def test_a_start_is_identified_by_its_content(x):
    for name, values in (("x.npy", x[0]), ("same.npy", x[0]), ("other.npy", x[1])):
        np.save(name, values)
    paths = [
        run_path(particles(name), 2, 0) for name in ("x.npy", "same.npy", "other.npy")
    ]
    assert paths[0] == paths[1] != paths[2]
    begin(particles("x.npy"), out="run.nc")
    written = begin(particles("same.npy"), out="run.nc", steps=4)
    with pytest.raises(SettingsError, match="out: found"):
        begin(particles("other.npy"), out="run.nc")
    pinned = read_settings(written)
    for name in (
        "x.npy",
        "same.npy",
    ):  # files that change are refused, and not needed to go on
        np.save(name, x[1])
    with pytest.raises(SettingsError, match="has changed since"):
        begin(pinned)
    begin(pinned, out="run.nc", steps=6)


def assert_refused(start, told="start"):
    with pytest.raises(SettingsError, match=told) as error:
        begin(particles(start))
    assert error.value.field == "start"


@pytest.mark.parametrize(
    "text",
    ["1,2\n3", "a,b\n", "", "nan,1\n" * 5, "1,2\n" * 4, "1,2,3\n" * 5, "not numpy"],
)
@pytest.mark.parametrize("name", ["a.csv", "a.npy"])
def test_a_table_that_is_no_embedding_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert_refused(name)


def test_other_files_a_folder_and_no_file_are_refused(tmp_path):
    np.savez("x.npz", x=np.zeros((5, 2)))
    Path("x.npz").rename("x.npy")
    assert_refused("x.npy", "start: .*archive")
    with open("x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)}
        )
    for start in ("x.npy", "absent.npy", tmp_path):
        assert_refused(start)


def test_values_that_are_not_real_or_too_small_or_large_are_refused():
    for values in (
        *(np.full((5, 2), value) for value in (1j, True, 1e-170, 1e39)),
        np.array([{"a": 1}], dtype=object),
    ):
        np.save("x.npy", values, allow_pickle=True)
        assert_refused("x.npy")


def test_a_trajectory_that_is_damaged_or_without_embedding_is_refused():
    begin(ParticleSettings(n=5), out="m.nc", record="metrics").close()
    assert_refused("m.nc", r"start: found .*m\.nc, which contains only metrics")
    Path("m.nc").write_bytes(Path("m.nc").read_bytes()[:-5])
    assert_refused("m.nc", "start: found .*cut short")
