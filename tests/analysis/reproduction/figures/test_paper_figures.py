"""Figures of the papers: what is listed, how runs are found and chosen, what is drawn,
and what is refused."""

import dataclasses
import functools
import itertools
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import xarray as xr
from matplotlib.text import Text
from PIL import Image

from analysis.clustering_heads.labels import CircuitLabel
from analysis.clustering_heads.transfer_design import TransferDesign
from analysis.output.results import write_result
from analysis.reproduction.experiment import RequiredRuns, SizeOverrides
from analysis.reproduction.figures import (
    attention_figures,
    circuit_figures,
    embedding_figures,
    ensemble_figures,
    phase_figures,
    spike_figures,
)
from analysis.reproduction.figures.figure import (
    FigureData,
    PaperFigure,
    draw_paper_figure,
    format_seeds,
    settings_summary,
)
from analysis.reproduction.figures.figure_runs import (
    load_figure_runs,
    open_figure_files,
)
from analysis.reproduction.figures.framing import small_dpi
from analysis.reproduction.figures.register import PAPER_FIGURES, get_paper_figure
from analysis.reproduction.figures.run_rules import (
    EndStates,
    index_nearest_median,
    runs_with_seeds,
)
from analysis.transitions import ablations, loss_events
from analysis.transitions.spike_attribution import training_sequences
from analysis.transitions.spike_replays import SpikeExamination
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    TrajectoryError,
    TransformerSettings,
    open_trajectory,
    simulate,
)
from dynamics.settings import SettingsError
from dynamics.trajectory.recorder import save_trajectory
from tests.analysis.plots.rendering import token_places

TINY = SparseSettings(length=6, sparsity=2, hidden=8, data=64, batch=16, lr=0.02)
SEVEN = {"n": 7, "hidden": 6}
ADDITION = {"n": 7, "dim": 8, "heads": 2}
SMALL_RUNS = {
    "decay1": (ModularSettings(weight_decay=1.0), 3, 60),
    "decay0": (ModularSettings(weight_decay=0.0, **SEVEN), 3, 20),
    **{
        f"dim{dim}": (ModularSettings(weight_decay=1.0, dim=dim, **SEVEN), 2, 20)
        for dim in (3, 4)
    },
    "particles": (ParticleSettings(fa=1.0, n=7), 3, 20),
    "heads": (TINY, 8, 200 * TINY.epoch_steps, TINY.epoch_steps),
    **{
        f"heads{dim}": (SparseSettings(dim=dim, hidden=4, data=64), 2, 40, 2)
        for dim in (2, 3)
    },
    "full": (SparseSettings(batch=2048, hidden=4), 1, 20, 1),
    **{
        f"rate{rate:g}": (
            TransformerSettings(attention_rate=rate, **ADDITION),
            3,
            60,
            10,
        )
        for rate in (0.0, 1.0)
    },
}
"""Settings, runs, steps and the gap of frames of small runs of all that figures are
drawn from, by a word."""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """The folder of the small runs and results; figures are drawn fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.plots.class_maps.MAX_MAP_SIDE", 80)
        for module in (circuit_figures, phase_figures):
            patch.setattr(module, "SIDE", 40)
        patch.setattr("analysis.statistics.ranks.PROFILE_PERMUTATIONS", 200)
        patch.setattr(
            phase_figures, "MARGIN", 0.0
        )  # so that the second drop, found in what is shown, would end elsewhere
        designs = ablations.plan_ablation(
            TINY, ["lr", "mlp-lr-discount"], points=2, runs=2, epochs=2
        )
        patch.setattr(ensemble_figures, "ablation_designs", lambda _: designs)
        patch.setattr(
            ensemble_figures,
            "transfer_design",
            lambda _: TransferDesign(TINY, (3,), 2, epochs=2),
        )
        patch.chdir(tmp_path_factory.mktemp("small"))
        for word, (settings, runs, steps, *every) in SMALL_RUNS.items():
            simulate(
                settings,
                runs,
                steps=steps,
                every=(every or [steps])[0],
                out=f"{word}.nc",
            )
        start = dataclasses.replace(
            TINY, vocab=3, start=str(Path("heads.nc").absolute()), start_step=-1
        )
        simulate(start, runs=8, steps=40, every=40, out="finetuned.nc")
        simulate(TINY, runs=2, steps=4, record="metrics", out="metrics.nc")
        result = open_trajectory("decay1.nc")
        diverged = {
            "last_step": ("run", [60, 0, 60]),
            "status": result["status"].copy(data=np.int8([1, 2, 1])),
        }
        save_trajectory(result.assign(diverged), "diverged.nc")
        Path("data.png").write_bytes(Path("decay1.nc").read_bytes())
        for name, word in (("vc6", "ablation"), ("vc9", "transfer")):
            write_result(
                get_paper_figure(name).needs[0].make(SizeOverrides()),
                Path(f"{word}.nc"),
            )
        yield Path.cwd()


@pytest.fixture(scope="module")
def opened(folder):
    """The dataset of a word."""
    results = ("ablation", "transfer")
    return functools.cache(
        lambda word: (xr.load_dataset if word in results else open_trajectory)(
            folder / f"{word}.nc"
        )
    )


TRAIN_TRANSFORMERS = ("zl-rates", "na-phases")
DRAWN = {
    "ca1": ("decay1", 2),
    "ca2": ("decay1", 1),
    "ca3": ("decay1", 4),
    "ca4": ("decay1", 4),
    "ca5": ("particles", 3),
    "ca6": ("decay1 decay0", 3),
    "ca-c": ("decay1 decay0", 2 * 3),
    "ca-d": ("particles particles", 2 * 3),
    "ca-decay": ("decay0 decay1 decay0 decay1", 4 * 3),
    "ca-e": ("decay1", 2 * 3 + 2),
    "ca-f": ("dim3 dim4", 6 * 2),
    **{f"vc{index}": ("heads", 8) for index in range(1, 5)},
    "vc5": ("heads", 5),
    "vc6": ("ablation", 2),
    "vc7": ("ablation", 2),
    "vc8": ("heads", 3),
    "vc9": ("transfer", 3),
    "vc11": ("heads finetuned", 8),
    "vc12": ("heads", 3),
    "vc13": ("heads", 4),
    "vc14": ("heads", 3),
    "vc15": ("full", 4),
    "vc17": ("heads2", 3),
    "vc19": ("heads3", 7),
    "vc20": ("heads2 heads3", 2),
    "zl-rates": ("rate0 rate1", 3),
    "na-phases": ("rate1", 6),
}
"""What each figure is drawn from, and how many panels, colour bars and legends it
has."""
SMALL = (
    *("ca-e", "vc5", "vc13", "vc14", "vc15", "vc17", "vc20"),
    *("zl-rates", "na-phases"),
)
"""Figures that are drawn small."""


@pytest.fixture(scope="module")
def drawn(opened):
    """The figure of a name, from small runs."""

    def draw(name):
        data = FigureData(
            tuple(map(opened, DRAWN[name][0].split())), small=name in SMALL
        )
        return draw_paper_figure(get_paper_figure(name), data)

    return functools.cache(draw)


# ----------------------------------------------------------------------------- the list


def test_list_has_every_figure_with_the_cost_of_its_runs(output_of):
    text = output_of("analysis.paper")
    names = [f"ca{index}" for index in range(1, 7)] + ["ca-c", "ca-d"]
    names += ["ca-decay", "ca-e", "ca-f"]
    names += [f"vc{index}" for index in range(1, 21)] + ["zl-rates", "na-phases"]
    assert [figure.name for figure in PAPER_FIGURES] == names
    sources = {"ca3": "CA figure 3", "vc20": "VC figure 20", "zl-rates": "ZL rates"}
    assert {name: get_paper_figure(name).source for name in sources} == sources
    for figure in PAPER_FIGURES:
        line = rf"^{figure.name} .*{figure.source} .*{figure.cost}$"
        assert len(re.findall(line, text, re.MULTILINE)) == 1
    assert max(map(len, text.splitlines())) <= 120


def test_names_ignore_case_and_punctuation():
    words = ("CA.3", "vc 5", "Ca-C", "cac", "VC_12")
    names = [get_paper_figure(word).name for word in words]
    assert names == ["ca3", "vc5", "ca-c", "ca-c", "vc12"]


# ---------------------------------------------------------------------------- all drawn


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in TRAIN_TRANSFORMERS else ())
        for name in DRAWN
    ],
)
def test_figure_has_its_panels_and_names_its_runs(name, drawn, opened):
    words, panels = DRAWN[name]
    result, figure = drawn(name), get_paper_figure(name)
    assert len(result.figure.axes) == panels
    assert re.fullmatch(r".+\n.+\.", f"{result.here}\n{result.rule}")
    if name in ("vc1", "vc9"):  # built by hand, or without single runs
        assert not result.seeds
        return
    seeds = format_seeds(result.seeds)
    assert f"\n{seeds.capitalize()}. Data: {result.about}." in result.caption
    assert figure.alternative_text(result) == f"{figure.shows} ({seeds})"
    assert len(result.seeds) == 1 or not figure.one_run
    first = opened(words.split()[0])
    if "seed" in first and name != "ca-f":
        assert set(result.seeds) <= set(first["seed"].values.tolist())


@pytest.mark.parametrize("name", ["ca1", "ca2", "ca5"])
def test_embeddings_are_those_of_the_runs_in_the_title(name, drawn, opened):
    result = drawn(name)
    last = opened(DRAWN[name][0])["embedding"].isel(step=-1)
    runs = [int(run) for run in re.findall(r"run (\d+)", result.here)]
    for axes, run in zip(result.figure.axes, runs, strict=True):
        offsets = token_places(axes)
        np.testing.assert_array_equal(offsets, last.isel(run=run))
        assert axes.get_title().startswith(f"run {run}: ")


@pytest.mark.parametrize("name", [name for name in DRAWN if name.startswith("ca")])
def test_panels_are_apart_and_within_the_figure(name, drawn):
    boxes = [axes.get_position().extents for axes in drawn(name).figure.axes]
    for left, bottom, right, top in boxes:
        assert 0 <= left < right <= 1
        assert 0 <= bottom < top <= 1
    for one, other in itertools.combinations(boxes, 2):
        assert (one[2:] <= other[:2]).any() or (other[2:] <= one[:2]).any()


def visible_texts(figure):
    """The texts of a figure, without tick labels beyond the limits."""
    hidden = set()
    for axes in figure.axes:
        if not axes.axison:
            hidden |= set(axes.findobj(Text))
        for axis, at in ((axes.xaxis, 0), (axes.yaxis, 1)):
            low, high = sorted(axis.get_view_interval())
            hidden |= {
                label
                for label in axis.get_ticklabels()
                if not low <= label.get_position()[at] <= high
            }
    texts = set(figure.findobj(Text)) - hidden
    return [text for text in texts if text.get_text().strip() and text.get_visible()]


@pytest.mark.parametrize("name", SMALL)
def test_small_pictures_have_legible_texts(name, drawn):
    figure = drawn(name).figure
    figure.canvas.draw()
    for text in visible_texts(figure):
        box = text.get_window_extent()
        assert text.get_fontsize() / 72 * small_dpi(figure) >= 6.5, text
        assert -2 <= box.x0 <= box.x1 <= figure.bbox.width + 2, text


# ------------------------------------------------------------------ where runs are from


def test_existing_runs_are_reused_and_epochs_are_steps_for_particles(output_of):
    words = ["analysis.paper", "ca5", "--runs", 4, "--epochs", 50]
    text = output_of(*words)
    assert re.search("4 runs of 50 steps, .*, to be computed", text)
    (run,) = Path("runs").glob("particles-*.nc")
    before = run.stat().st_mtime_ns
    assert int(open_trajectory(run)["step"][-1]) == 50
    assert "read from the file" in output_of(*words, "--out", "again.svg")
    assert run.stat().st_mtime_ns == before
    with Image.open("runs/paper-ca5.png") as image:
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        assert len(image.convert("RGB").getcolors(1 << 24)) > 100
    assert Path("again.svg").read_text().startswith("<?xml")


def test_finetuning_starts_from_the_end_of_its_source():
    finetuned = RequiredRuns(dataclasses.replace(TINY, vocab=3), every=0, follows=True)
    needs = (RequiredRuns(TINY), finetuned)
    figure = PaperFigure("x", "x", needs, "no time", circuit_figures.vc10)
    first, second = load_figure_runs(figure, [], SizeOverrides(2, 3), None).datasets
    for name in ("query", "receptor"):
        begin, end = second[name].isel(step=0), first[name].isel(step=-1)
        np.testing.assert_array_equal(begin, end)


def test_given_files_are_the_needs_in_their_order(folder):
    files = [folder / "heads.nc", folder / "finetuned.nc"]
    opened = open_figure_files(get_paper_figure("vc10"), files)
    assert [item.sizes["token"] for item in opened] == [2, 3]


REFUSED = {
    "ca3 particles.nc": "particles.nc: particles, N = 7, f_a = 1, expected a run of modular",
    "ca1 dim3.nc": "D = 3, expected a run of modular with dim 2",
    "vc10 finetuned.nc heads.nc": "began at other weights",
    "vc6 heads.nc": "expected a result of analysis.paper ablation",
    "vc9 ablation.nc": "“Ablations of VC's training recipe”, expected a result",
    "vc13 heads2.nc": "found no spike",
    "vc5 heads2.nc": "found no run with two drops",
    "vc17 full.nc": "successes against failures need 2",
    "vc2 metrics.nc": "metrics.nc: only metrics, expected weights",
    "vc2 not/there.nc": "not/there.nc",
    "ca3 diverged.nc --run 1": "run 1: diverged after step 0",
}
"""Data that do not fit."""
INVALID = {
    "vc21": "FIGURE: found vc21, allowed is one of ca1, ca2, ",
    "ca3 data.png --run 3": "--run: found 3, allowed is a whole number from 0 to 2",
    "ca1 data.png --run 0": "--run: found 0, allowed is no value here",
    "ca3 data.png --out x.gif": "--out: found x.gif",
    "ca3 data.png --small --out x.pdf": "--out: found x.pdf",
    "ca3 data.png --runs 2": "--runs: found 2, allowed is no value beside files",
    "ca3 --runs 0": "--runs: found 0, allowed is a whole number from 1",
    "ca3 data.png --out data.png": "--out: found data.png, allowed is a file that is not",
    "ca-f dim3.nc": "TRAJECTORIES: found 1, allowed is as many as CA appendix F needs, 2",
}
"""Arguments that are invalid before any run."""


@pytest.mark.parametrize("words", REFUSED | INVALID)
def test_unsuitable_files_and_invalid_arguments_are_rejected(
    words, folder, typed, monkeypatch
):
    monkeypatch.chdir(folder)
    before = set(folder.rglob("*"))
    code, _, error = typed("analysis.paper", *words.split())
    assert code == (1 if words in REFUSED else 2)
    assert (REFUSED | INVALID)[words] in error
    assert set(folder.rglob("*")) == before


def test_diverged_runs_are_not_shown(opened):
    assert 1 not in EndStates(opened("diverged")).places
    assert 1 not in runs_with_seeds(opened("diverged"), range(3))[0]


def test_small_picture_beside_its_file_is_small(output_of, folder):
    output_of("analysis.paper", "ca1", folder / "decay1.nc", "--small")
    with Image.open(folder / "paper-ca1.png") as image:
        assert (image.width, image.mode) == (696, "P")  # 100 to an inch
    assert (folder / "paper-ca1.png").stat().st_size < 60_000


# -------------------------------------------------------------------------------- rules


def planted(*embeddings, accuracy=()):
    """Runs that end at embeddings (token, axis)."""
    runs = len(embeddings)
    variables = {
        "embedding": (("run", "step", "token", "axis"), np.stack(embeddings)[:, None]),
        "last_step": ("run", np.full(runs, 5)),
    }
    if accuracy:
        values = np.reshape(accuracy, (-1, 1, 1))
        variables["accuracy"] = (("run", "step", "split"), values)
    seeds = ("run", 10 + np.arange(runs))
    coords = {"step": [5], "seed": seeds, "split": ["validation"]}
    return xr.Dataset(variables, coords)


def ring(n=9, times=2):
    angle = 2 * np.pi * times * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def lattice(n=9):
    column, row = np.arange(n) % 3, np.arange(n) // 3
    return np.stack([column - 1.0, row - 1.0 + 0.1 * column], axis=-1) + 0.01


def test_first_circle_and_best_grid_are_chosen(generator):
    wild = [generator.normal(size=(9, 2)) for _ in range(4)]
    runs = (wild[0], ring(), wild[1], lattice(), ring())
    ends = EndStates(planted(*runs, accuracy=[0.1, 0.9, 0.3, 0.5, 1.0]))
    assert (ends.circle_run().run, ends.grid_run().run) == (1, 3)
    assert "the first of 2 circles among 5" in ends.circle_run().why
    without = EndStates(planted(*wild, lattice()))
    assert without.grid_run().run == 4  # by imperfections, where there is no accuracy
    assert "NO circle among 5" in without.circle_run().why
    assert (
        "ALL 2 runs ended as circles"
        in EndStates(planted(ring(), ring())).grid_run().why
    )


def test_imperfect_grid_has_the_median_number_of_imperfections(generator):
    wild = [generator.normal(size=(9, 2)) for _ in range(7)]
    ends = EndStates(planted(*wild, ring()))
    counts = ends.imperfections[~ends.circle]
    away = abs(ends.imperfections[ends.imperfect_run().run] - np.median(counts))
    assert away == abs(counts - np.median(counts)).min()
    assert index_nearest_median(np.array([4, 7, 9]), np.array([5.0, 1.0, 2.0])) == 9


def test_seeds_of_the_paper_are_shown_if_available():
    whole = planted(*[lattice()] * 25).assign_coords(seed=("run", 8 + np.arange(25)))
    assert runs_with_seeds(whole, range(10, 30))[0] == list(range(2, 22))
    few = whole.isel(run=slice(4))
    some, rule = runs_with_seeds(few, range(10, 30))
    assert some == [0, 1, 2, 3]
    assert "the first 4 runs" in rule
    figure, rule, seeds = embedding_figures.plot_runs_by_trajectory(
        FigureData((whole, few), small=True), ["one", "two"]
    )
    assert len(figure.axes) == 6 + 4
    assert seeds == [*range(10, 16), 8, 9]
    words = "one: seeds 10 to 15 of the paper's 10 to 29; two: the first 4 runs, as"
    assert words in rule


def labelled(*labels):
    return [
        CircuitLabel(label, "why", (5,) * (label == "partial"), ()) for label in labels
    ]


def test_circuits_are_chosen_by_label():
    first, learned = circuit_figures.first_run_of_kind, circuit_figures.LEARNED
    labels = labelled("none", "corrected", "fuzzy", "corrected", "ideal")
    kinds = [circuit_figures.runs_with_label("corrected"), learned]
    success = np.array([False, False, True, True, True])
    run, why = first(labels, success, kinds)
    assert run == 3
    assert "first successful run that is labelled corrected (2 of 5 runs)" in why
    assert first(labels, success & False, kinds).run == 1
    run, why = first(labelled("none", "partial"), success, kinds)
    assert (run, why.split(";")[0]) == (1, "NO run of 2 is labelled corrected")
    # a partial circuit that lacks only one of both invariances
    lacking = [circuit_figures.LACKING_BOTH, learned]
    assert "NO run of 1" in first(labelled("partial"), success, lacking).why
    with pytest.raises(TrajectoryError, match="no run that is labelled corrected"):
        first(labelled("none"), success, kinds)


def test_labels_of_an_ensemble_are_cached(monkeypatch):
    measured = mock.Mock(wraps=circuit_figures.measure_invariances)
    monkeypatch.setattr(circuit_figures, "measure_invariances", measured)
    monkeypatch.setattr(circuit_figures, "_labels", {})
    monkeypatch.setattr(circuit_figures, "MOST_CACHED_LABELS", 2)
    trajectory = simulate(TINY, runs=2, steps=0)
    labels = circuit_figures.cached_circuit_labels(trajectory)
    assert circuit_figures.cached_circuit_labels(trajectory.copy(), 0) == labels
    assert measured.call_count == 1
    doubled = trajectory.assign(value=2 * trajectory["value"])
    for other in (trajectory.isel(run=[1]), doubled):
        circuit_figures.cached_circuit_labels(other)
    assert (measured.call_count, len(circuit_figures._labels)) == (3, 2)


def test_ideal_circuit_is_constructed_only_if_no_run_is_ideal(
    drawn, opened, monkeypatch
):
    assert "built by hand" in drawn("vc1").here
    assert "NONE of 8 runs" in drawn("vc1").rule
    labels = labelled("none", "partial", "ideal", *["none"] * 5)
    monkeypatch.setattr(circuit_figures, "cached_circuit_labels", lambda _: labels)
    monkeypatch.setattr(circuit_figures, "plot_circuit_panels", lambda *_: None)
    assert circuit_figures.vc1(FigureData((opened("heads"),))).here.startswith(
        "circuit of run 2"
    )


def test_constructed_circuit_is_ideal():
    built = circuit_figures.ideal_circuit_trajectory(TINY)
    (label,) = circuit_figures.cached_circuit_labels(built)
    assert label.label == "ideal"
    with pytest.raises(TrajectoryError, match="no ideal circuit"):
        circuit_figures.ideal_circuit_trajectory(dataclasses.replace(TINY, vocab=5))
    with pytest.raises(SettingsError, match="hidden"):
        circuit_figures.ideal_circuit_trajectory(SparseSettings(hidden=2))


def test_best_finetuned_run_from_a_corrected_circuit_is_chosen():
    best = circuit_figures.best_from_corrected
    accuracy = xr.DataArray([1.0, 0.4, 0.8, 0.6], dims="run")
    accuracy = accuracy.expand_dims(step=[5], split=["unseen"])
    places = np.array([3, 2, 1, 0])
    last = ("run", [5, 5, 5, 5])
    tuned = xr.Dataset({"accuracy": accuracy, "last_step": last})
    tuned["seed"] = ("run", places)
    assert best(labelled(*["corrected"] * 3, "partial"), places, tuned).run == 2
    result = best(labelled(*["partial"] * 4), places, tuned)
    words = (0, "NO circuit was labelled corrected")
    assert (result.run, result.why.split(";")[0]) == words


def test_start_points_of_finetuned_runs(folder, opened):
    def tuned_from(runs=4, **changes):
        start = str(folder / "heads.nc")
        settings = dataclasses.replace(TINY, vocab=3, start=start, **changes)
        return simulate(settings, runs=runs, steps=0)

    source, tuned = opened("heads"), opened("finetuned")
    starts = circuit_figures.finetuning_start_points
    places, begun = starts(source, tuned)
    assert (places.tolist(), begun) == (list(range(8)), int(source["step"][-1]))
    ends = source["accuracy"].sel(split="test").isel(step=-1).values
    good = np.flatnonzero(ends > 0.98)
    chosen = tuned_from(len(good), start_step=-1, start_runs="successful")
    assert starts(source, chosen)[0].tolist() == good.tolist() != [*range(len(good))]
    early = tuned_from(start_step=400)
    assert starts(source, early)[1] == 400
    words = circuit_figures.inherited_weights(source, early, 2, 400)
    assert words.endswith("run 2 at step 400 of 800, and a new row of the embedding.")
    other = simulate(dataclasses.replace(TINY, lr=0.03), 8, steps=800, out="other.nc")
    with pytest.raises(TrajectoryError, match="began at other weights"):
        starts(other, tuned)


def test_attention_is_of_the_median_successful_run():
    choose = attention_figures.run_with_median_attention
    own = np.array([0.9, 0.1, np.nan, 0.5, 0.3])
    assert choose(own, np.array([True, True, True, True, False])).run == 3
    assert "NONE of them successful" in choose(own, np.zeros(5, bool)).why
    with pytest.raises(TrajectoryError, match="attention at both ends"):
        choose(np.full(2, np.nan), np.ones(2, bool))


def test_snapshots_are_at_begin_and_end_of_the_drops():
    begin = xr.DataArray(np.tile([95.0, 305.0], (5, 1)), dims=("run", "phase"))
    between = ("run", [50.0, np.nan, 10.0, 90.0, 70.0])
    result = xr.Dataset({"begin": begin, "end": begin + 20, "between": between})
    result["drops"] = ("run", np.full(5, 1))
    choose = phase_figures.run_with_median_drop_gap
    assert choose(result, np.array([True, True, True, True, False])).run == 0
    assert "NONE of them successful" in choose(result, np.zeros(5, bool)).why
    trajectory = xr.Dataset(coords={"step": np.arange(0, 500, 10)})
    assert phase_figures.drop_snapshots(trajectory, result, 0) == [90, 120, 300, 330]
    with pytest.raises(TrajectoryError, match="run 1: found 1 drops"):
        phase_figures.drop_snapshots(trajectory, result, 1)


def vertical_lines(axes):
    """Where a panel has vertical lines."""
    places = [line.get_xdata() for line in axes.lines]
    return [x[0] for x in places if len(set(x)) == 1]


def test_drops_are_those_of_the_whole_run(drawn, opened):
    loss = loss_events.trajectory_scalar(opened("heads"), "loss")
    drops = loss_events.first_two_drops(loss_events.event_table(loss), 8)
    result = drawn("vc5")
    run = int(re.search(r"run (\d+)", result.here)[1])
    spans = [drops[name].values[run] / TINY.epoch_steps for name in ("begin", "end")]
    begin, end = spans
    moments = [np.floor(begin[0]), np.ceil(end[0]), np.floor(begin[1]), np.ceil(end[1])]
    epochs = ", ".join(f"{moment:g}" for moment in moments)  # frames are epochs
    assert result.here.endswith(f"epochs {epochs}")
    axes = result.figure.axes[0]
    assert vertical_lines(axes) == moments
    bands = [(band.get_x(), band.get_x() + band.get_width()) for band in axes.patches]
    np.testing.assert_allclose(bands, np.transpose(spans), atol=0.5 / TINY.epoch_steps)
    legend = axes.get_legend().get_window_extent()
    assert legend.y1 < axes.get_window_extent().y0  # no loss is behind it


def test_spike_is_shown_at_its_foot_and_after_its_rise(drawn, opened):
    result, data = drawn("vc13"), FigureData((opened("heads"),))
    shown = spike_figures.highest_crossing_spike(data)
    on = training_sequences(TINY, shown.spike.seed)
    what = spike_figures.examine_spike(opened("heads"), shown.spike, on).values
    assert shown.moments == (what["foot"], what["at"] + 1)
    epochs = [step / TINY.epoch_steps for step in shown.moments]
    assert vertical_lines(result.figure.axes[1]) == epochs
    accuracy = shown.path["accuracy"].sel(split="train", step=list(shown.moments))
    titles = [
        f"{word}: {share:.0%} of training correct"
        for word, share in zip(("before", "after"), accuracy.values[0], strict=True)
    ]
    assert [axes.get_title() for axes in result.figure.axes[2:]] == titles


def test_highest_spike_explained_by_a_boundary_is_chosen(opened, monkeypatch):
    trajectory = opened("heads")
    seen, of = spike_figures.highest_spikes(trajectory, None)
    heights = [item.height - item.level for item in seen]
    assert heights == sorted(heights, reverse=True)
    assert "successful" in of
    values = {"cause": "neither", "explained": False, "foot": 0, "at": 1}
    result = {seen[1]: {**values, "cause": "feed-forward", "explained": True}}
    monkeypatch.setattr(
        spike_figures,
        "examine_spike",
        lambda _, spike, on: SpikeExamination(result.get(spike, values), on, on),
    )
    choose = spike_figures.highest_crossing_spike
    assert choose(FigureData((trajectory,))).spike == seen[1]
    result.clear()
    one = choose(FigureData((trajectory,)))
    assert (one.spike, one.why[:8]) == (seen[0], "NO spike")
    with pytest.raises(TrajectoryError, match="of the run that was asked for"):
        spike_figures.highest_spikes(trajectory.assign(loss=0 * trajectory["loss"]), 0)


def test_summary_of_settings():
    one, other = (
        simulate(ModularSettings(weight_decay=decay, lr=lr), runs=2, steps=4, seed=3)
        for decay, lr in ((1.0, 0.01), (0.3, 0.02))
    )
    words = "modular addition: N = 17, weight decay = 1, 4 epochs, 2 runs from seed 3"
    assert settings_summary(one) == words
    both = "weight decay = 1, 0.3, lr = 0.01, 0.02, 4 epochs, 2 runs each from seed 3"
    assert settings_summary(one, other).endswith(both)
