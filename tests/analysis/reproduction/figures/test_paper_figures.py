"""Figures of the papers: what is listed, how runs are found and chosen, what is drawn,
and what is refused."""

import dataclasses
import functools
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
    figure_frames,
    phase_figures,
    spike_figures,
)
from analysis.reproduction.figures import figure as paper_figure
from analysis.reproduction.figures.figure import (
    FigureData,
    PaperFigure,
    draw_paper_figure,
    drawn_panel_names,
    format_seeds,
)
from analysis.reproduction.figures.figure_runs import (
    load_figure_runs,
    match_files_to_requirements,
)
from analysis.reproduction.figures.framing import add_title_and_caption, small_dpi
from analysis.reproduction.figures.register import PAPER_FIGURES, get_paper_figure
from analysis.reproduction.figures.run_rules import (
    EndStates,
    index_nearest_median,
    runs_with_seeds,
)
from analysis.reproduction.figures.settings_line import settings_summary
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
        patch.setattr(figure_frames, "SIDE", 40)
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
SMALL, SAVED = (
    ("ca-e", "vc5", "vc13", "vc14", "vc15", "vc17", "vc20", "zl-rates", "na-phases"),
    ("ca3", "vc1", "vc14"),
)
"""Figures that are drawn small, and one of each layout, which are saved, too."""


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


def test_list_has_every_figure_and_its_requirements(output_of):
    text = output_of("analysis.paper")
    appendices = [f"ca-{item}" for item in "cdef"]
    names = (
        [f"ca{index}" for index in range(1, 7)]
        + appendices
        + [f"vc{index}" for index in range(1, 21)]
    )
    names += ["zl-rates", "na-phases"]
    assert [figure.name for figure in PAPER_FIGURES] == names
    sources = {"ca3": "CA figure 3", "vc20": "VC figure 20", "zl-rates": "ZL rates"}
    assert {name: get_paper_figure(name).source for name in sources} == sources
    for figure in PAPER_FIGURES:
        assert (
            len(
                re.findall(
                    rf"^{figure.name} .*{figure.source} .*{figure.cost}$",
                    text,
                    re.MULTILINE,
                )
            )
            == 1
        )
    assert "CA appendix F" in text
    assert max(map(len, text.splitlines())) <= 120
    assert output_of("analysis.paper", "ca1", "--list") == text


def test_names_ignore_case_and_punctuation():
    result = [
        get_paper_figure(word).name for word in ("CA.3", "vc 5", "Ca-C", "cac", "VC_12")
    ]
    assert result == ["ca3", "vc5", "ca-c", "ca-c", "vc12"]


# ---------------------------------------------------------------------------- all drawn


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in TRAIN_TRANSFORMERS else ())
        for name in DRAWN
    ],
)
def test_figure_has_its_panels_with_the_runs_in_its_title(name, drawn, opened):
    result = drawn(name)
    assert len(result.figure.axes) == DRAWN[name][1]
    assert re.fullmatch(r".+\n.+\.", f"{result.here}\n{result.rule}")
    assert result.about.count("=") >= 3 or name.startswith("ca")
    if name in ("ca1", "ca2", "ca5"):
        last = opened(DRAWN[name][0])["embedding"].isel(step=-1)
        runs = [int(run) for run in re.findall(r"run (\d+)", result.here)]
        assert result.here.endswith(("weight decay 1", "f_a = 1"))
        for axes, run in zip(result.figure.axes, runs, strict=True):
            np.testing.assert_array_equal(
                axes.collections[0].get_offsets(), last.isel(run=run)
            )
            assert axes.get_title().startswith(f"run {run}: ")


@pytest.mark.parametrize("name", list(DRAWN))
def test_caption_and_alt_text_name_the_drawn_panels_and_runs(name, drawn, opened):
    result = drawn(name)
    keys = [
        axes
        for axes in result.figure.axes
        if axes.get_label().startswith("<") or not axes.axison
    ]
    panels = drawn_panel_names(result.figure)
    assert len(panels) == DRAWN[name][1] - len(keys)
    assert all(panels)
    alt = paper_figure.paper_figure_alt(result)
    caption = paper_figure.paper_figure_caption(result)
    assert alt.startswith(
        tuple(
            item
            for panel in panels
            for item in (panel, f"{panels.count(panel)} of {panel}")
        )
    )
    assert sum(
        int(count or 1) for count in re.findall(r"(?:^|; )(?:(\d+) of )?[^;]", alt)
    ) == len(panels)
    assert ("of all runs with a peak" in caption) == any(
        panel.startswith("drops") for panel in panels
    )
    assert ("test data" in caption.replace("training and test", "test")) == any(
        "test data" in item for item in panels
    )
    if name in ("vc1", "vc9"):
        assert not result.seeds
        return
    assert f"\n{format_seeds(result.seeds).capitalize()}. Data: " in caption
    assert alt.endswith(f"({format_seeds(result.seeds)})")
    printed = [
        opened(word)["seed"].values.tolist()
        for word in DRAWN[name][0].split()
        if "seed" in opened(word)
    ]
    assert all(
        set(result.seeds) <= set(seeds) for seeds in printed[:1] if name != "ca-f"
    )
    assert len(result.seeds) == 1 or not get_paper_figure(name).picks


@pytest.mark.parametrize(
    ("name", "count", "words"),
    [
        ("ca-c", 20, "Each block: seeds 10 to 29, as in the paper."),
        ("ca-e", 4, "Seeds 10 to 13 of the paper's 10 to 23."),
        (
            "ca-f",
            7,
            "The first 7 runs with D = 3 (the paper: 7) and 7 runs with D = 4 (the paper: 8), a column each",
        ),
    ],
)
def test_excerpts_name_the_seeds_that_they_show(name, count, words):
    dims = (3, 4) if name == "ca-f" else (2,)
    first = 0 if name == "ca-f" else 10
    runs = [
        simulate(
            ModularSettings(dim=dim, **SEVEN),
            first + 20 if first else 7,
            steps=1,
        )
        for dim in dims
    ]
    result = draw_paper_figure(
        get_paper_figure(name), FigureData(tuple(runs), small=count == 4)
    )
    assert words in result.rule
    assert list(result.seeds) == list(range(first, first + count))
    panels = [
        axes
        for axes in result.figure.axes
        if "class map" not in axes.get_label() and axes.axison
    ]
    panels = [axes for axes in panels if not axes.get_label().startswith("<")]
    assert len(panels) == len(dims) * (3 if name == "ca-f" else 1) * count
    for axes, seed in zip(panels, result.seeds, strict=False):
        x = runs[0]["embedding"].isel(run=seed, step=-1)[:, :2]
        if name == "ca-e":
            assert axes.get_title().startswith(f"run {seed}")
        else:
            np.testing.assert_array_equal(axes.collections[0].get_offsets(), x)


@pytest.mark.parametrize("name", SAVED)
def test_saved_figure_has_white_edges(name, drawn):
    result = drawn(name)
    box = add_title_and_caption(
        result.figure, f"{name}, here: {result.here}", result.rule
    )
    result.figure.savefig("x.png", bbox_inches=box, dpi=40)
    with Image.open("x.png") as image:
        assert image.width == pytest.approx(40 * result.figure.get_figwidth(), abs=2)
        assert len(image.convert("RGB").getcolors(1 << 24)) > 100  # something is there
        assert image.getpixel((0, 0)) == (255, 255, 255, 255)  # and paper around it


@pytest.mark.parametrize("name", SMALL)
def test_small_pictures_have_legible_texts(name, drawn):
    figure = drawn(name).figure
    figure.canvas.draw()
    hidden = {
        text for axes in figure.axes if not axes.axison for text in axes.findobj(Text)
    }
    for axis in (
        axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
    ):  # labels beyond the limits
        low, high = sorted(axis.get_view_interval())
        at = axis.axis_name == "y"
        hidden |= {
            label
            for label in axis.get_ticklabels()
            if not low <= label.get_position()[at] <= high
        }
    for text in (
        set(
            figure.findobj(
                lambda artist: isinstance(artist, Text) and artist.get_text().strip()
            )
        )
        - hidden
    ):
        box = text.get_window_extent()
        assert (
            not text.get_visible()
            or text.get_fontsize() / 72 * small_dpi(figure) >= 6.5
        ), text
        assert (
            not text.get_visible() or -2 <= box.x0 <= box.x1 <= figure.bbox.width + 2
        ), text


# ------------------------------------------------------------------ where runs are from


def test_existing_runs_are_reused_and_epochs_are_steps_for_particles(output_of):
    words = ["analysis.paper", "ca5", "--runs", 4, "--epochs", 50]
    text = output_of(*words)
    assert re.search("4 runs of 50 steps, .*, to be computed", text)
    assert "50 steps, 4 runs" in text
    (run,) = Path("runs").glob("particles-*.nc")
    before = run.stat().st_mtime_ns
    assert int(open_trajectory(run)["step"][-1]) == 50
    assert "read from the file" in output_of(*words, "--out", "again.svg")
    assert run.stat().st_mtime_ns == before
    assert Path("runs/paper-ca5.png").stat().st_size > 10_000
    assert Path("again.svg").read_text().startswith("<?xml")
    assert RequiredRuns(ParticleSettings(), every=5).frame_gap == 5
    assert (
        RequiredRuns(ParticleSettings(), every=0).at(SizeOverrides(epochs=30)).frame_gap
        == 30
    )


def test_finetuning_starts_from_the_end_of_its_source():
    finetuned = RequiredRuns(dataclasses.replace(TINY, vocab=3), every=0, follows=True)
    paper_figure_of_two = PaperFigure(
        "x", "x", (RequiredRuns(TINY), finetuned), "no time", circuit_figures.vc10
    )
    first, second = load_figure_runs(
        paper_figure_of_two, [], SizeOverrides(2, 3), None
    ).datasets
    for name in ("query", "receptor"):
        np.testing.assert_array_equal(
            second[name].isel(step=0), first[name].isel(step=-1)
        )
    assert second.sizes["step"] == 2


def test_files_are_matched_in_any_order(folder):
    def matched(name, *words):
        return match_files_to_requirements(
            get_paper_figure(name), [folder / f"{word}.nc" for word in words]
        )

    assert [item.sizes["token"] for item in matched("vc10", "finetuned", "heads")] == [
        2,
        3,
    ]
    assert matched("vc15", "heads", "full")[0].sizes["step"] == 21
    assert "accuracy_lr" in matched("vc6", "transfer", "ablation")[0]


REFUSED = {
    "ca3 particles.nc": (
        "CA figure 3 needs a trajectory of modular with dim 2, found particles.nc:"
        " particles"
    ),
    "ca-c decay1.nc decay0.nc": (
        "needs a trajectory of modular with weight-decay 0.6, dim 2"
    ),
    "ca-e decay0.nc": (
        "found decay0.nc: modular, weight-decay 0.0, dim 2, n 7, hidden 6"
    ),
    "ca-f dim3.nc": (
        "weight-decay 1, dim 4, found dim3.nc: modular, weight-decay 1.0, dim 3, n"
        " 7, hidden 6"
    ),
    "vc10 heads.nc": "vocab 3, finetuned from another run",
    "ca1 dim3.nc": "modular with dim 2, found dim3.nc",
    "vc5 decay1.nc": "needs a trajectory of sparse",
    "vc6 heads.nc": "needs a result of analysis.ablation, found heads.nc: sparse",
    "vc9 ablation.nc": (
        "needs a result of analysis.transfer, found ablation.nc: “Ablations"
    ),
    "vc14 heads3.nc": "sparse with dim 2, found heads3.nc: sparse, dim 3, data 64",
    "vc13 heads2.nc": "found no spike",
    "vc5 heads2.nc": "found no run with two drops",
    "vc17 full.nc": "successes against failures need 2",
    "vc2 metrics.nc": "metrics.nc: VC figure 2 needs weights",
    "vc2 not/there.nc": "not/there.nc",
    "ca3 diverged.nc --run 1": "run 1: diverged after step 0",
}
"""Data that do not fit, and arguments that are invalid before any run."""
INVALID = {
    **{
        word: f"FIGURE: found {word}, allowed is one of ca1, ca2, "
        for word in ("ca7", "vc21", "ca", "figure", "vc0")
    },
    "ca3 data.png --run 3": "--run: found 3, allowed is a whole number from 0 to 2",
    "ca1 data.png --run 0": "--run: found 0, allowed is no value here",
    "ca3 data.png --out x.gif": "--out: found x.gif",
    "ca3 data.png --small --out x.pdf": "--out: found x.pdf",
    "ca3 data.png --runs 2": "--runs: found 2, allowed is no value beside files",
    "ca3 data.png --out data.png": (
        "--out: found data.png, allowed is another name, as this is a NetCDF file"
    ),
    **{
        f"{name} --epochs 99": "--epochs: found 99, allowed is a whole number from 100"
        for name in ("vc5", "vc18")
    },
    **{
        f"{name} --runs 1": "--runs: found 1, allowed is a whole number from 2"
        for name in ("vc7", "vc20")
    },
}


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
    coords = {
        "step": [5],
        "seed": ("run", 10 + np.arange(runs)),
        "split": ["validation"],
    }
    return xr.Dataset(variables, coords)


def ring(n=9, times=2):
    angle = 2 * np.pi * times * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def lattice(n=9):
    return (
        np.stack(
            [
                np.arange(n) % 3 - 1.0,
                np.arange(n) // 3 - 1.0 + 0.1 * (np.arange(n) % 3),
            ],
            axis=-1,
        )
        + 0.01
    )


def test_first_circle_and_best_grid_are_chosen(generator):
    wild = [generator.normal(size=(9, 2)) for _ in range(4)]
    ends = EndStates(
        planted(
            wild[0],
            ring(),
            wild[1],
            lattice(),
            ring(),
            accuracy=[0.1, 0.9, 0.3, 0.5, 1.0],
        )
    )
    assert (ends.circle_run().run, ends.grid_run().run) == (1, 3)
    assert "the first of 2 circles among 5" in ends.circle_run().why
    without = EndStates(planted(*wild, lattice()))
    assert without.grid_run().run == 4  # by imperfections, where there is no accuracy
    assert "NO circle among 5" in without.circle_run().why
    assert "ALL 2 runs are circles" in EndStates(planted(ring(), ring())).grid_run().why


def test_imperfect_grid_has_the_median_number_of_imperfections(generator):
    result = EndStates(
        planted(*(generator.normal(size=(9, 2)) for _ in range(7)), ring())
    )
    counts = result.imperfections[~result.circle]
    chosen = result.imperfect_run().run
    assert (
        abs(result.imperfections[chosen] - np.median(counts))
        == abs(counts - np.median(counts)).min()
    )
    assert index_nearest_median(np.array([4, 7, 9]), np.array([5.0, 1.0, 2.0])) == 9


def test_seeds_of_the_paper_are_shown_if_available():
    whole = planted(*[lattice()] * 25).assign_coords(seed=("run", 8 + np.arange(25)))
    assert runs_with_seeds(whole, range(10, 30))[0] == list(range(2, 22))
    some, rule = runs_with_seeds(whole.isel(run=slice(4)), range(10, 30))
    assert some == [0, 1, 2, 3]
    assert "the first 4 runs" in rule
    few = whole.isel(run=slice(4))
    figure, rule, seeds = embedding_figures.plot_runs_by_trajectory(
        FigureData((whole, few), small=True), ["one", "two"]
    )
    assert len(figure.axes) == 6 + 4
    assert seeds == [*range(10, 16), 8, 9]
    assert (
        "one: seeds 10 to 15 of the paper's 10 to 29; two: the first 4 runs, as" in rule
    )
    _, rule, _ = embedding_figures.plot_runs_by_trajectory(
        FigureData((few.isel(run=[0]), few.isel(run=[0]))), ["one", "two"]
    )
    assert rule.startswith("Each block: the first 1 runs")


def verdicts(*labels):
    return [
        CircuitLabel(label, "why", (5,) * (label == "partial"), ()) for label in labels
    ]


def test_circuits_are_chosen_by_label():
    labels = verdicts("none", "corrected", "fuzzy", "corrected", "ideal")
    fits = [circuit_figures.runs_with_label("corrected"), circuit_figures.LEARNED]
    success = np.array([False, False, True, True, True])
    run, why = circuit_figures.first_run_of_kind(labels, success, fits)
    assert run == 3
    assert "first successful run that is labelled corrected (2 of 5 are)" in why
    assert circuit_figures.first_run_of_kind(labels, success & False, fits).run == 1
    run, why = circuit_figures.first_run_of_kind(
        verdicts("none", "partial"), success, fits
    )
    assert (run, why.split(";")[0]) == (1, "NO run of 2 is labelled corrected")
    assert (
        circuit_figures.first_run_of_kind(
            verdicts("partial"),
            success,
            [circuit_figures.LACKING_BOTH, circuit_figures.LEARNED],
        ).run
        == 0
    )
    with pytest.raises(
        TrajectoryError, match="found no run that is labelled corrected"
    ):
        circuit_figures.first_run_of_kind(verdicts("none"), success, fits)


def test_labels_of_an_ensemble_are_cached(monkeypatch):
    measured = mock.Mock(wraps=circuit_figures.measure_invariances)
    monkeypatch.setattr(circuit_figures, "measure_invariances", measured)
    monkeypatch.setattr(circuit_figures, "_labels", {})
    monkeypatch.setattr(circuit_figures, "MOST_CACHED_LABELS", 2)
    trajectory = simulate(TINY, runs=2, steps=0)
    labels = circuit_figures.cached_circuit_labels(trajectory)
    assert circuit_figures.cached_circuit_labels(trajectory.copy(), 0) == labels
    assert measured.call_count == 1
    circuit_figures.cached_circuit_labels(trajectory.isel(run=[1]))
    circuit_figures.cached_circuit_labels(
        trajectory.assign(value=2 * trajectory["value"])
    )
    assert (measured.call_count, len(circuit_figures._labels)) == (3, 2)


def test_ideal_circuit_is_constructed_only_if_no_run_is_ideal(
    drawn, opened, monkeypatch
):
    assert "built by hand" in drawn("vc1").here
    assert "NONE of 8 runs" in drawn("vc1").rule
    labels = verdicts("none", "partial", "ideal", *["none"] * 5)
    monkeypatch.setattr(circuit_figures, "cached_circuit_labels", lambda _: labels)
    monkeypatch.setattr(circuit_figures, "plot_circuit_panels", lambda *_: None)
    assert circuit_figures.vc1(FigureData((opened("heads"),))).here.startswith("run 2")


def test_constructed_circuit_is_ideal():
    (label,) = circuit_figures.cached_circuit_labels(
        circuit_figures.ideal_circuit_trajectory(TINY)
    )
    assert label.label == "ideal"
    with pytest.raises(TrajectoryError, match="no ideal circuit"):
        circuit_figures.ideal_circuit_trajectory(dataclasses.replace(TINY, vocab=5))
    with pytest.raises(SettingsError, match="hidden"):
        circuit_figures.ideal_circuit_trajectory(SparseSettings(hidden=2))


def test_best_finetuned_run_from_a_corrected_circuit_is_chosen():
    accuracy = xr.DataArray([1.0, 0.4, 0.8, 0.6], dims="run").expand_dims(
        step=[5], split=["unseen"]
    )
    places = np.array([3, 2, 1, 0])
    tuned = xr.Dataset(
        {
            "accuracy": accuracy,
            "last_step": ("run", [5, 5, 5, 5]),
            "seed": ("run", places),
        }
    )
    labels = verdicts("corrected", "corrected", "corrected", "partial")
    assert circuit_figures.best_from_corrected(labels, places, tuned).run == 2
    result = circuit_figures.best_from_corrected(
        verdicts(*["partial"] * 4), places, tuned
    )
    assert (result.run, result.why.split(";")[0]) == (
        0,
        "NO circuit was labelled corrected",
    )
    with pytest.raises(TrajectoryError, match="has not diverged"):
        circuit_figures.best_from_corrected(
            labels, places, tuned.assign(last_step=("run", [0] * 4))
        )


def test_start_points_of_finetuned_runs(folder, opened):
    def tuned_from(runs=4, **changes):
        start = dataclasses.replace(
            TINY, vocab=3, start=str(folder / "heads.nc"), **changes
        )
        return simulate(start, runs=runs, steps=0)

    source, tuned = opened("heads"), opened("finetuned")
    places, begun = circuit_figures.finetuning_start_points(source, tuned)
    assert (places.tolist(), begun) == (list(range(8)), int(source["step"][-1]))
    good = np.flatnonzero(
        source["accuracy"].sel(split="test").isel(step=-1).values > 0.98
    )
    chosen = tuned_from(len(good), start_step=-1, start_runs="successful")
    assert (
        circuit_figures.finetuning_start_points(source, chosen)[0].tolist()
        == good.tolist()
        != list(range(len(good)))
    )
    result = circuit_figures.vc10(FigureData((source, chosen), run=0))
    assert (
        f"those of the source's run {good[0]} at its end, and a new row" in result.rule
    )
    assert len(result.figure.axes) == 8
    early = tuned_from(start_step=400)
    assert circuit_figures.finetuning_start_points(source, early)[1] == 400
    assert "run 2 at step 400 of 800" in circuit_figures.inherited_weights(
        source, early, 2, 400
    )
    wide = simulate(dataclasses.replace(TINY, table=3), runs=1, steps=0)
    assert "row" not in circuit_figures.inherited_weights(wide, early, 0, 0)
    for settings, runs, seed in (
        (dataclasses.replace(TINY, lr=0.03), 8, 0),
        (TINY, 2, 50),
    ):
        other = simulate(settings, runs, seed, steps=800, every=400, out=f"{seed}.nc")
        with pytest.raises(
            TrajectoryError, match="began at other weights than those of the source"
        ):
            circuit_figures.finetuning_start_points(other, tuned)


def test_attention_is_of_the_median_successful_run():
    own = np.array([0.9, 0.1, np.nan, 0.5, 0.3])
    assert (
        attention_figures.run_with_median_attention(
            own, np.array([True, True, True, True, False])
        ).run
        == 3
    )
    assert (
        "NONE of them successful"
        in attention_figures.run_with_median_attention(own, np.zeros(5, bool)).why
    )
    with pytest.raises(TrajectoryError, match="attention at both ends"):
        attention_figures.run_with_median_attention(
            np.full(2, np.nan), np.ones(2, bool)
        )


def test_snapshots_are_at_begin_and_end_of_the_drops():
    begin = xr.DataArray(np.tile([95.0, 305.0], (5, 1)), dims=("run", "phase"))
    between = {
        "between": ("run", [50.0, np.nan, 10.0, 90.0, 70.0]),
        "drops": ("run", np.full(5, 1)),
    }
    result = xr.Dataset({"begin": begin, "end": begin + 20, **between})
    assert (
        phase_figures.run_with_median_drop_gap(
            result, np.array([True, True, True, True, False])
        ).run
        == 0
    )
    assert (
        "NONE of them successful"
        in phase_figures.run_with_median_drop_gap(result, np.zeros(5, bool)).why
    )
    trajectory = xr.Dataset(coords={"step": np.arange(0, 500, 10)})
    assert phase_figures.drop_snapshots(trajectory, result, 0) == [90, 120, 300, 330]
    with pytest.raises(TrajectoryError, match="run 1: found 1 drops"):
        phase_figures.drop_snapshots(trajectory, result, 1)


def check_moments(figure, label, moments):
    """The panel of a loss, which has vertical lines at moments."""
    (axes,) = (axes for axes in figure.axes if axes.get_label() == label)
    assert [
        x[0] for x in (line.get_xdata() for line in axes.lines) if len(set(x)) == 1
    ] == moments
    return axes


def test_drops_are_those_of_the_whole_run(drawn, opened):
    loss = loss_events.trajectory_scalar(opened("heads"), "loss")
    result = loss_events.first_two_drops(loss_events.event_table(loss), 8)
    result_figure = drawn("vc5")
    run = int(re.match(r"run (\d+)", result_figure.here)[1])
    assert result["between"].values[run] > 0
    begin, end = (
        result[name].values[run] / TINY.epoch_steps for name in ("begin", "end")
    )
    moments = [
        np.floor(begin[0]),
        np.ceil(end[0]),
        np.floor(begin[1]),
        np.ceil(end[1]),
    ]  # frames are epochs
    epochs = ", ".join(f"{moment:g}" for moment in moments)
    assert result_figure.here.endswith(f"epochs {epochs}")
    assert (
        f"analysis.events finds them: epochs {epochs} (the paper" in result_figure.rule
    )
    axes = check_moments(result_figure.figure, "loss", moments)
    bands = [(band.get_x(), band.get_x() + band.get_width()) for band in axes.patches]
    np.testing.assert_allclose(
        bands, np.stack([begin, end], axis=1), atol=0.5 / TINY.epoch_steps
    )


def test_spike_is_shown_at_its_foot_and_after_its_rise(drawn, opened):
    result_figure = drawn("vc13")
    result = spike_figures.highest_crossing_spike(FigureData((opened("heads"),)))
    on = training_sequences(TINY, result.spike.seed)
    what = spike_figures.examine_spike(opened("heads"), result.spike, on).values
    assert result.moments == (what["foot"], what["at"] + 1)
    check_moments(
        result_figure.figure,
        "loss around the spike",
        [step / TINY.epoch_steps for step in result.moments],
    )
    right = (
        result.path["accuracy"].sel(split="train", step=list(result.moments)).values[0]
    )
    titles = [
        f"{word}: {part:.0%} of training correct"
        for word, part in zip(("before", "after"), right, strict=True)
    ]
    assert [axes.get_title() for axes in result_figure.figure.axes[2:]] == titles
    assert (
        f"after is {spike_figures.format_delay(result.moments)}, behind"
        in result_figure.rule
    )
    assert (
        f"spike at epoch {result.spike.step / TINY.epoch_steps:g}" in result_figure.here
    )


def test_highest_spike_explained_by_a_boundary_is_chosen(opened, monkeypatch):
    trajectory = opened("heads")
    seen, of = spike_figures.highest_spikes(trajectory, None)
    heights = [item.height - item.level for item in seen]
    assert heights == sorted(heights, reverse=True)
    assert "successful" in of
    values = {"cause": "neither", "explained": False, "foot": 0, "at": 1}
    result = {seen[1]: {**values, "cause": "feed-forward", "explained": True}}
    examine = mock.Mock(
        side_effect=lambda _, spike, on: SpikeExamination(
            result.get(spike, values), on, on
        )
    )
    monkeypatch.setattr(spike_figures, "examine_spike", examine)
    assert (
        spike_figures.highest_crossing_spike(FigureData((trajectory,))).spike == seen[1]
    )
    result.clear()
    one = spike_figures.highest_crossing_spike(FigureData((trajectory,)))
    assert (one.spike, one.why[:8]) == (seen[0], "NO spike")
    with pytest.raises(
        TrajectoryError,
        match="found no spike of the loss of the run that was asked for",
    ):
        spike_figures.highest_spikes(trajectory.assign(loss=0 * trajectory["loss"]), 0)


def test_summary_of_settings():
    one, other = (
        simulate(
            ModularSettings(weight_decay=decay, lr=lr),
            runs=2,
            steps=4,
            seed=3,
        )
        for decay, lr in ((1.0, 0.01), (0.3, 0.02))
    )
    summary = (
        "modular addition: N = 17, D = 2, H = 32, weight decay = 1, 4 epochs, 2 runs"
        " from seed 3"
    )
    assert settings_summary(one) == summary
    assert (
        "weight decay = 1, 0.3, lr = 0.01, 0.02, 4 epochs, 2 runs each from seed 3"
        in settings_summary(one, other)
    )
