"""Initial weights of networks from a trajectory or from arrays by variable."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynamics import (
    ModularSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
    branch,
    open_trajectory,
    read_settings,
    replay,
    run_path,
    simulate,
)
from dynamics.sweeps import sweep

SMALL = {
    "modular": ModularSettings(n=5, hidden=4),
    "sparse": SparseSettings(length=4, sparsity=2, data=32, batch=8, hidden=4),
    "transformer": TransformerSettings(n=5, dim=4, heads=2, hidden=6),
}


def run(settings, runs=2, seed=1, steps=4, **options):
    return simulate(
        settings, runs, seed, steps, **{"every": 2, "progress": False, **options}
    )


def begin(system, start, **changes):
    settings = dataclasses.replace(SMALL[system], start=str(start), **changes)
    return run(settings)


@pytest.fixture(params=SMALL)
def system(request):
    return request.param


def test_weights_of_a_trajectory_are_those_of_the_run_of_the_same_seed(system):
    settings = SMALL[system]
    source = run(settings, runs=3, seed=0, out="a.nc")
    for step in (2, -1):
        given = begin(system, "a.nc", start_step=step)
        at = source.sel(step=step) if step >= 0 else source.isel(step=-1)
        for name in settings.weight_names:
            assert_array_equal(given[name][:, 0], at[name][1:], name)


@pytest.mark.parametrize("has_seeds", [False, True])
def test_arrays_are_the_weights_and_the_others_are_drawn(system, has_seeds, generator):
    drawn = run(SMALL[system]).sel(step=0)
    names = SMALL[system].weight_names
    for count in (1, len(names)):
        arrays = {}
        for name in names[:count]:
            shape = drawn[name].shape[1:]
            lead = (4,) if has_seeds else ()
            arrays[name] = generator.standard_normal((*lead, *shape))
        np.savez("w.npz", **arrays)
        begun = begin(system, "w.npz").sel(step=0)
        for name in names:
            expected = drawn[name].values
            if name in arrays:
                rows = arrays[name][1:3] if has_seeds else [arrays[name]] * 2
                expected = np.float32(rows)
            assert_array_equal(begun[name], expected, name)


def test_all_weights_given_are_the_run_that_has_them(system):
    """Training from its own initial weights is the same run, bit for bit."""
    plain = run(SMALL[system])
    names = SMALL[system].weight_names
    arrays = {name: plain[name].values[:, 0] for name in names}
    padded = {name: np.concatenate([x[:1], x]) for name, x in arrays.items()}
    np.savez("w.npz", **padded)  # a row for each seed from 0
    begun = begin(system, "w.npz")
    for name in (*names, "loss", "gradient_norm"):
        assert_array_equal(begun[name], plain[name], name)


def test_it_is_continued_replayed_and_branched_and_known_by_content(system):
    names = SMALL[system].weight_names
    arrays = {names[0]: run(SMALL[system])[names[0]].values[0, 0]}
    np.savez("w.npz", **arrays)
    np.savez("same.npz", **arrays)
    np.savez("other.npz", **{names[0]: 1 + arrays[names[0]]})
    settings = dataclasses.replace(SMALL[system], start="w.npz")
    same = dataclasses.replace(SMALL[system], start="same.npz")
    other = dataclasses.replace(SMALL[system], start="other.npz")
    paths = [run_path(one, 2, 1) for one in (settings, same, other, SMALL[system])]
    assert paths[0] == paths[1]
    assert len(set(paths)) == 3
    run(settings, out="b.nc").close()
    longer = run(same, out="b.nc", steps=8)
    again = run(settings, steps=8)
    assert_array_equal(longer["loss"], again["loss"])
    assert_array_equal(replay("b.nc", None, 2, 8, 2)["loss"], longer["loss"][:, 1:])
    assert_array_equal(branch("b.nc", 4, every=2)["loss"], longer["loss"][:, 2:])
    for wrong in (other, SMALL[system]):
        with pytest.raises(SettingsError, match="out: found"):
            run(wrong, out="b.nc")
    with pytest.raises(SettingsError, match="start: .*no change: a branch begins"):
        branch("b.nc", 4, start="other.npz")
    assert "#sha256=" in read_settings(longer).start
    np.savez("w.npz", **{names[0]: 2 + arrays[names[0]]})
    with pytest.raises(SettingsError, match="has changed since"):
        run(read_settings(again))


def test_mistakes_are_one_clear_line(system, tmp_path):
    name = SMALL[system].weight_names[1]
    good = run(SMALL[system])[name].values[0, 0]
    simulate(
        SMALL[system], 3, 0, 2, record="metrics", out="metrics.nc", progress=False
    ).close()
    other = next(other for other in SMALL if other != system)
    simulate(SMALL[other], 3, 0, 2, out="other.nc", progress=False).close()
    wide = dataclasses.replace(SMALL[system], hidden=8)
    simulate(wide, 3, 0, 2, out="wide.nc", progress=False).close()
    run(SMALL[system], out="a.nc").close()
    np.savez("name.npz", wrong=good)
    np.savez("shape.npz", **{name: good[..., None]})
    np.savez("seeds.npz", **{name: np.stack([good, good])})
    np.savez("nan.npz", **{name: np.full_like(good, np.nan)})
    np.savez("large.npz", **{name: np.full(good.shape, 1e39)})
    np.savez("bool.npz", **{name: good > 0})
    np.save("one.npy", good)
    (tmp_path / "text.npz").write_text("not numpy")
    (tmp_path / "empty.npz").touch()
    for file, told in {
        "name.npz": "wrong in name.npz, allowed is variables among",
        "shape.npz": f"{name} of shape",
        "seeds.npz": f"{name} of shape .*a row for each seed up to 2",
        "nan.npz": "not finite",
        "large.npz": "not finite",
        "bool.npz": "of type bool",
        "one.npy": "one array, without names",
        "text.npz": "allowed is a trajectory",
        "empty.npz": "allowed is a trajectory",
        "none.npz": "readable file",
        "other.nc": f"a trajectory of {system}",
        "metrics.nc": "contains only metrics",
        "wide.nc": "hidden: found" if system == "sparse" else "of shape .* in wide.nc",
    }.items():
        with pytest.raises(SettingsError, match=told) as error:
            begin(system, file)
        assert "\n" not in str(error.value), file
    np.savez("good.npz", **{name: good})
    with pytest.raises(SettingsError, match="start_step: found 2"):
        begin(system, "good.npz", start_step=2)
    with pytest.raises(SettingsError, match="start_step: found 3"):
        begin(system, "a.nc", start_step=3)


def test_a_sweep_over_starts():
    for number in (1, 2):
        np.savez(f"{number}.npz", hidden_bias=np.full(4, number))
    swept = sweep(
        SMALL["modular"],
        {"start": ["1.npz", "2.npz"]},
        runs=2,
        epochs=0,
        record="all",
        folder=".",
        progress=False,
    )
    losses = swept["final_loss"]
    assert (losses[0] != losses[1]).all()


@pytest.mark.parametrize("command", ["modular", "transformer", "sparse"])
def test_commands_begin_from_weights(command, output_of):
    settings = SMALL[command]
    name = settings.weight_names[0]
    weights = run(settings)[name].values[0, 0] * 2
    np.savez("w.npz", **{name: weights})
    sizes = {
        "modular": "--n 5 --hidden 4",
        "sparse": "--length 4 --sparsity 2 --data 32 --batch 8 --hidden 4",
        "transformer": "--n 5 --dim 4 --heads 2 --hidden 6",
    }[command]
    option = "--from" if command == "sparse" else "--start"
    words = f"{sizes} {option} w.npz --runs 2 --epochs 1 --out b.nc"
    output_of(f"sims.{command}", *words.split())
    with open_trajectory("b.nc") as trajectory:
        assert_array_equal(trajectory[name].values[:, 0], [weights, weights])
