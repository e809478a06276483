"""Training pairs that a file lists, or that one seed draws, for all runs."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from analysis.forces.audited_runs import read_audited_run
from analysis.linearization.training_loss import training_batch
from analysis.panels.scene import Points
from analysis.plots.class_maps import final_state
from analysis.progress_measures.adding_networks import PackageNetwork
from analysis.reproduction.experiment import training_pairs_of_runs
from dynamics import (
    ModularSettings,
    SettingsError,
    TransformerSettings,
    all_pairs,
    branch,
    open_trajectory,
    read_settings,
    replay,
    run_path,
    simulate,
)
from dynamics.ensemble import create_system
from dynamics.errors import MissingFile
from dynamics.networks.from_trajectory import network_of
from dynamics.settings_text import setting_texts
from dynamics.sweeps import sweep
from dynamics.tasks import modular_training_mask, operation_pairs, operation_splits
from tests.analysis.panels.test_panels import layer, scene_of
from tests.dynamics.training.single_updates import assert_updates_of_plain_runs
from tests.plain_torch import Run

LISTED = [(0, 0), (3, 1), (2, 4), (4, 4), (1, 2)]
SMALL = ModularSettings(n=5, hidden=7, dim=3)
TRANSFORMER = TransformerSettings(n=5, dim=8, heads=2)


def write(pairs, name="pairs.csv", header=""):
    lines = [header, *(f"{a},{b}" for a, b in pairs)]
    Path(name).write_text("\n".join(filter(None, lines)) + "\n")
    return name


def listed(settings, pairs=LISTED, name="pairs.csv"):
    """Settings whose training pairs are in a file."""
    return dataclasses.replace(settings, train_pairs_file=write(pairs, name))


def as_set(pairs):
    """Pairs (pair, 2) of tokens, without their order."""
    return {tuple(sorted(pair)) for pair in np.asarray(pairs).tolist()}


# ------------------------------------------------------------------------------ the split


@given(data=st.data(), n=st.integers(2, 9), header=st.sampled_from(["", "a,b", "x, y"]))
def test_all_runs_train_on_the_pairs_of_the_file(data, n, header):
    pairs = [
        data.draw(st.permutations(pair)) if data.draw(st.booleans()) else pair
        for pair in data.draw(
            st.lists(st.sampled_from(all_pairs(n).tolist()), min_size=1, unique_by=str)
        )
    ]
    settings = ModularSettings(n=n, train_pairs_file=write(pairs, header=header))
    assert settings.train_pairs == len(pairs)
    mask = modular_training_mask(settings, np.array([0, 7]))
    for row in mask:
        assert as_set(all_pairs(n)[row]) == as_set(pairs)


@given(data=st.data(), n=st.integers(2, 6), ordered=st.booleans())
def test_the_splits_of_a_transformer_are_the_pairs_of_the_file_and_the_others(
    data, n, ordered
):
    settings = TransformerSettings(n=n, task="subtract", ordered=ordered)
    every = [tuple(pair) for pair in operation_pairs(settings).tolist()]
    pairs = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    settings = dataclasses.replace(settings, train_pairs_file=write(pairs))
    splits = operation_splits(settings, np.array([0, 7]))
    train, test = (operation_pairs(settings)[split] for split in splits)
    for run in range(2):
        assert set(map(tuple, train[run].tolist())) == set(pairs)
        assert set(map(tuple, test[run].tolist())) == set(every) - set(pairs)
    assert (settings.train_pairs, settings.batch_pairs) == (len(pairs), len(pairs))


def test_one_seed_draws_the_pairs_of_all_runs_of_a_transformer():
    drawn = operation_splits(TRANSFORMER, np.array([3]))
    seeded = dataclasses.replace(TRANSFORMER, split_seed=3)
    for split, expected in zip(
        operation_splits(seeded, np.array([0, 7])), drawn, strict=True
    ):
        assert_array_equal(split, np.repeat(expected, 2, axis=0))


@pytest.mark.parametrize("backend", ["simd", "blas"])
def test_updates_are_those_of_plain_runs_on_the_pairs(backend):
    settings = listed(SMALL)
    system = create_system(settings, "cpu", runs=2, backend=backend)
    plain = {row: Run(settings, row, LISTED) for row in range(2)}
    assert_updates_of_plain_runs(system, np.arange(2), plain, 4)


@pytest.mark.parametrize("settings", [SMALL, TRANSFORMER], ids=lambda s: s.system)
def test_a_list_of_drawn_pairs_has_the_bits_of_the_draw(settings):
    drawn = dataclasses.replace(settings, split_seed=3, train_share=0.6)
    whole = simulate(drawn, runs=2, steps=4, progress=False)
    (pairs, *_) = training_batch(network_of(whole), 0)
    given = simulate(listed(settings, pairs), runs=2, steps=4, progress=False)
    for name in ("embedding", "loss"):
        assert_array_equal(given[name].values, whole[name].values)


@pytest.mark.parametrize("change", ["list", "seed"])
@pytest.mark.parametrize("settings", [SMALL, TRANSFORMER], ids=lambda s: s.system)
def test_analyses_take_the_pairs_of_the_settings(settings, change):
    if change == "list":
        settings = listed(settings)
        expected = as_set(LISTED)
    else:
        settings = dataclasses.replace(settings, split_seed=3)
        if settings.system == "modular":
            mask = modular_training_mask(settings, np.array([0]))[0]
            expected = as_set(all_pairs(5)[mask])
        else:
            chosen = operation_splits(settings, np.array([0]))[0][0]
            expected = as_set(operation_pairs(settings)[chosen])
    run = simulate(settings, runs=2, steps=2, progress=False)
    assert as_set(PackageNetwork(run).training_pairs(1)) == expected
    assert as_set(training_batch(network_of(run), 1)[0]) == expected
    audited = read_audited_run(run, 1, np.array([0]))
    assert as_set(audited.pairs) == expected
    if settings.system == "modular":
        assert as_set(training_pairs_of_runs(run)[1]) == expected
        assert as_set(all_pairs(5)[final_state(run, 1).trained]) == expected
        filled = layer(scene_of(run, 1), "pair_sums", Points).filled
        assert as_set(all_pairs(5)[filled]) == expected


# --------------------------------------------------------------------------- the identity


def test_runs_are_identified_by_the_content_of_the_list(tmp_path):
    write(LISTED, "same.csv")
    write(LISTED[:-1], "other.csv")
    settings = listed(SMALL)
    paths = [
        run_path(dataclasses.replace(SMALL, train_pairs_file=name), 2, 0)
        for name in ("pairs.csv", "same.csv", "other.csv")
    ]
    assert paths[0] == paths[1] != paths[2]
    simulate(settings, runs=2, steps=6, every=2, out="run.nc", progress=False).close()
    longer = simulate(settings, runs=2, steps=8, every=2, out="run.nc", progress=False)
    whole = simulate(settings, runs=2, steps=8, every=2, progress=False)
    assert_array_equal(longer["embedding"].values, whole["embedding"].values)
    repeated = replay("run.nc", 1, 2, 8)["embedding"].sel(step=8)
    assert_array_equal(repeated.values[0], whole["embedding"].sel(step=8).values[1])
    branched = branch("run.nc", 4, train_pairs_file="other.csv")
    assert read_settings(branched).train_pairs == 4
    assert read_settings(branch("run.nc", 4, train_pairs_file=None)).train_pairs == 12
    assert setting_texts(settings, form="option") == [
        "--n 5",
        "--hidden 7",
        "--dim 3",
        "--train-pairs-file pairs.csv",
    ]
    longer.close()


def test_files_open_without_the_list_and_say_what_is_missing():
    simulate(listed(SMALL), runs=1, steps=2, out="run.nc", progress=False).close()
    for change in (
        lambda path: path.write_text("0,0\n"),
        lambda path: path.unlink(),
    ):
        change(Path("pairs.csv"))
        with open_trajectory("run.nc") as trajectory:
            assert read_settings(trajectory).train_pairs == len(LISTED)
            with pytest.raises(MissingFile, match=r"train_pairs_file: found pairs.csv"):
                training_batch(network_of(trajectory), 0)


def test_lists_can_be_swept():
    names = [write(LISTED, "one.csv"), write(LISTED[2:], "two.csv")]
    result = sweep(SMALL, {"train_pairs_file": names}, runs=1, epochs=2, progress=False)
    losses = result["final_loss"].sel(split="train").values.ravel()
    for name, loss in zip(names, losses, strict=True):
        alone = dataclasses.replace(SMALL, train_pairs_file=name)
        single = simulate(alone, runs=1, steps=2, progress=False)
        assert loss == single["loss"].sel(split="train").values[0, -1]


# ----------------------------------------------------------------------------- what is not


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "without pairs"),
        ("a,b\n\n", "without pairs"),
        ("1\n2\n", "line 1 with 1 column"),
        ("1,2\n1,2,3\n", "line 2 with 3 columns"),
        ("1,5\n", "line 1: token 5, allowed is tokens from 0 to 4"),
        ("-1,2\n", "token -1"),
        ("1,2\n\n2,1\n", "line 3: 2,1, as in line 1"),
        ("1,2\na,b\n", "line 2: a,b"),
        ("1.0,2\n", "line 1: 1.0,2"),
        ("1,\n", "line 1: 1,"),
    ],
)
@pytest.mark.parametrize("settings", [SMALL, TRANSFORMER], ids=lambda s: s.system)
def test_content_that_is_no_list_of_pairs_is_refused(settings, content, told):
    if settings is TRANSFORMER:
        settings = dataclasses.replace(settings, ordered=False)
        told = told.replace("2,1, as in line 1", "2,1, allowed is pairs a,b")
    Path("pairs.csv").write_text(content)
    with pytest.raises(
        SettingsError, match="^train_pairs_file: found pairs.csv"
    ) as end:
        dataclasses.replace(settings, train_pairs_file="pairs.csv")
    assert told in str(end.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train_pairs_file": "none.csv"}, "found none.csv"),
        ({"train_pairs_file": "."}, "a readable file"),
        ({"train_pairs_file": 3}, "the path of a file"),
        ({"train_pairs_file": "binary.csv"}, "it is no text"),
        ({"train_pairs_file": "pairs.csv", "train_share": 0.5}, "train_share: found"),
        ({"train_pairs_file": "pairs.csv", "split_seed": 0}, "split_seed: found"),
    ],
)
def test_what_contradicts_a_list_is_refused(changes, told):
    write(LISTED)
    Path("binary.csv").write_bytes(b"\xff\x00")
    with pytest.raises(SettingsError, match=told):
        dataclasses.replace(SMALL, **changes)
    with pytest.raises(SettingsError, match="train_share: found 0.5"):
        dataclasses.replace(listed(SMALL), train_share=0.5)


def test_the_commands_take_a_list(output_of):
    write(itertools.product(range(5), range(3)), "ordered.csv")
    write(LISTED)
    small = "--n 5 --dim 8 --heads 2 --epochs 3 --runs 2"
    for preset in ("nanda", "zhong"):
        words = f"--preset {preset} {small} --train-pairs-file ordered.csv --out t.nc"
        output_of("sims.transformer", *words.split(), "--overwrite")
        with open_trajectory("t.nc") as trajectory:
            assert read_settings(trajectory).train_pairs == 15
    words = "--n 5 --hidden 4 --epochs 5 --runs 2 --out m.nc --activation tanh"
    output_of("sims.modular", *words.split(), "--train-pairs-file", "pairs.csv")
    with open_trajectory("m.nc") as trajectory:
        assert read_settings(trajectory).train_pairs == 5
        assert read_settings(trajectory).activation == "tanh"
