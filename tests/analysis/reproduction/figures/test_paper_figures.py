"""Figures of the papers: what is listed, how runs are found and chosen, what is drawn, and what is refused."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.text import Text
from PIL import Image

from analysis.clustering_heads.labels import CircuitLabel
from analysis.reproduction.figures import attention, circuits, embeddings, frames, phases, spikes
from analysis.reproduction.figures.figure import FigureData, PaperFigure, draw_paper_figure
from analysis.reproduction.figures.figure_runs import load_figure_runs, match_files_to_requirements
from analysis.reproduction.figures.framing import add_title_and_caption, small_dpi
from analysis.reproduction.figures.register import PAPER_FIGURES, get_paper_figure
from analysis.reproduction.figures.run_choice import EndStates, index_nearest_median, runs_with_seeds
from analysis.reproduction.figures.settings_line import settings_summary
from analysis.reproduction.verification.required_runs import RequiredRuns, SizeOverrides
from analysis.transitions import loss_events
from analysis.transitions.spike_replays import SpikeExamination
from dynamics.errors import TrajectoryError
from dynamics.settings import ModularSettings, ParticleSettings, SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.recorder import save_trajectory

NAMES = [f"ca{each}" for each in (1, 2, 3, 4, 5, 6, "-c", "-d", "-e", "-f")] + [f"vc{each}" for each in range(1, 21)]
TINY = SparseSettings(length=6, sparsity=2, hidden=8, data=64, batch=16, lr=0.02)
DECAYS = {f"decay{each:g}": ModularSettings(weight_decay=each) for each in (0.0, 0.3, 0.6, 1.0)}
EXAMINED: dict = {}
"""What is found of each spike of the small runs, which several tests need."""


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Figures are drawn fast, and each spike is replayed once."""
    examine = spikes.examine_spike

    def examine_once(trajectory, spike, on):
        if spike not in EXAMINED:
            EXAMINED[spike] = examine(trajectory, spike, on)
        return EXAMINED[spike]

    monkeypatch.setattr(spikes, "examine_spike", examine_once)
    monkeypatch.setattr("analysis.plots.class_maps.MAX_MAP_SIDE", 80)
    monkeypatch.setattr(frames, "SIDE", 40)
    monkeypatch.setattr("analysis.statistics.ranks.PROFILE_PERMUTATIONS", 200)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Small runs of all that figures are drawn from, by a word."""
    folder, found = tmp_path_factory.mktemp("small"), {}

    def run(word, settings, runs, steps, every):
        found[word] = folder / f"{word}.nc"
        simulate(settings, runs=runs, steps=steps, every=every, out=found[word], progress=False)

    for word, settings in DECAYS.items():
        run(word, settings, 3, 60, 60)
    for dim in (3, 4):
        run(f"dim{dim}", ModularSettings(weight_decay=1.0, dim=dim), 2, 20, 20)
    for fa in (1.0, 2.0, 0.5):
        run(f"fa{fa:g}", ParticleSettings(fa=fa), 3, 50, 50)
    run("heads", TINY, 8, 200 * TINY.epoch_steps, TINY.epoch_steps)
    start = dataclasses.replace(TINY, vocab=3, start=str(found["heads"]), start_step=-1)
    run("finetuned", start, 8, 10 * TINY.epoch_steps, 10 * TINY.epoch_steps)
    for dim in (2, 3):
        run(f"heads{dim}", SparseSettings(dim=dim, hidden=4, data=64), 2, 40, 2)
    run("full2", SparseSettings(batch=2048, hidden=4), 2, 20, 1)
    return found


DRAWN = {
    "ca1": ("decay1", 2), "ca2": ("decay1", 1), "ca3": ("decay1", 4), "ca4": ("decay1", 4), "ca5": ("fa1", 3),
    "ca6": (" ".join(DECAYS), 3), "ca-c": (" ".join(DECAYS), 4 * 3), "ca-d": ("fa2 fa1 fa0.5", 3 * 3),
    "ca-e": ("decay0.6", 2 * 3 + 2), "ca-f": ("dim4 dim3", 6 * 2),
    **{f"vc{each}": ("heads", 8) for each in range(1, 6)}, "vc8": ("heads", 3), "vc10": ("heads finetuned", 8),
    "vc11": ("heads finetuned", 8), "vc12": ("heads", 3), "vc13": ("heads", 4), "vc14": ("heads", 3),
    "vc15": ("full2", 7), "vc17": ("heads2", 5), "vc19": ("heads3", 7), "vc20": ("heads2 heads3", 2 * 4 + 1),
}  # fmt: skip
"""What each figure is drawn from, and how many panels, colour bars and legends it has."""
SAVED = {"ca1", "ca3", "ca6", "vc1", "vc8", "vc12", "vc14"}
"""Figures of each layout, which are saved, too."""


def drawn(files, name, small=False):
    """The figure of a name, from small runs."""
    wanted = get_paper_figure(name)
    if name == "ca6":  # which needs eleven weight decays
        wanted = wanted._replace(needs=[need for need in wanted.needs if need.settings in DECAYS.values()])
    if name == "vc20":  # which needs six dimensions
        wanted = wanted._replace(needs=wanted.needs[:2])
    data = load_figure_runs(wanted, [files[word] for word in DRAWN[name][0].split()], SizeOverrides(), None)
    return draw_paper_figure(wanted, data._replace(small=small))


# ------------------------------------------------------------------------------------------------- the list


def test_list_has_every_figure_and_its_requirements(typed):
    code, text, _ = typed("analysis.paper")
    assert code == 0
    assert [each.name for each in PAPER_FIGURES] == NAMES
    assert [get_paper_figure(name).source for name in ("ca3", "vc20")] == ["CA figure 3", "VC figure 20"]
    lines = text.splitlines()
    for each in PAPER_FIGURES:
        (line,) = [line for line in lines if line.startswith(f"{each.name} ")]
        assert each.source in line
        assert each.cost in line
    assert "CA appendix F" in text
    assert max(map(len, lines)) <= 120
    assert typed("analysis.paper", "ca1", "--list")[1] == text


def test_names_ignore_case_and_punctuation():
    found = [get_paper_figure(word).name for word in ("CA.3", "vc 5", "Ca-C", "cac", "VC_12")]
    assert found == ["ca3", "vc5", "ca-c", "ca-c", "vc12"]


def test_help_imports_no_heavy_packages(environment):
    found = "import sys, analysis.paper; print({'numpy', 'xarray', 'torch', 'matplotlib'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", found], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ----------------------------------------------------------------------------------------------- all drawn


@pytest.mark.parametrize("name", list(DRAWN))
def test_figure_has_its_panels_with_the_runs_in_its_title(files, name, tmp_path):
    found = drawn(files, name)
    assert len(found.figure.axes) == DRAWN[name][1]
    assert found.here
    assert found.rule.endswith(".")
    assert found.about.count("=") >= 3 or name.startswith("ca")
    if name in ("ca1", "ca2", "ca5"):
        trajectory = open_trajectory(files[DRAWN[name][0]])
        runs = [int(run) for run in re.findall(r"run (\d+)", found.here)]
        for axes, run in zip(found.figure.axes, runs, strict=True):
            tokens = axes.collections[0].get_offsets()
            np.testing.assert_array_equal(tokens, trajectory["embedding"].isel(run=run, step=-1))
            assert axes.get_title().startswith(f"run {run}: ")
    if name not in SAVED:
        return
    box = add_title_and_caption(found.figure, f"{name}, here: {found.here}", found.rule)
    found.figure.savefig(tmp_path / "x.png", bbox_inches=box, dpi=40)
    with Image.open(tmp_path / "x.png") as image:
        colours = image.convert("RGB").getcolors(1 << 24)
        assert image.width == pytest.approx(40 * found.figure.get_figwidth(), abs=2)
    assert len(colours) > 100  # something is there
    assert image.getpixel((0, 0)) == (255, 255, 255, 255)  # and paper around it


def visible_texts(figure):
    """All words that are drawn; not labels of ticks beyond the limits."""
    hidden = {text for axes in figure.axes if not axes.axison for text in axes.findobj(Text)}
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        at = axis.axis_name == "y"
        hidden |= {label for label in axis.get_ticklabels() if not low <= label.get_position()[at] <= high}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in texts if text not in hidden]


@pytest.mark.parametrize("name", ["ca-e", "vc5", "vc15", "vc20"])
def test_small_pictures_have_legible_texts(files, name):
    figure = drawn(files, name, small=True).figure
    figure.canvas.draw()
    across = figure.bbox.width
    for text in visible_texts(figure):
        assert text.get_fontsize() / 72 * small_dpi(figure) >= 6.5, text
        box = text.get_window_extent()
        assert box.x0 >= -2, text
        assert box.x1 <= across + 2, text


def test_ablations_and_transfer_are_drawn_from_results(typed):
    small = ["--length", 6, "--sparsity", 2, "--data", 64, "--hidden", 4, "--runs", 2, "--epochs", 2]
    points = ["--panels", "lr", "mlp-lr-discount", "--points", 2]
    assert typed("analysis.ablation", *small, *points, "--out", "ablation.nc")[0] == 0
    assert typed("analysis.transfer", *small, "--vocabs", 3, "--out", "transfer.nc")[0] == 0
    for name, file, panels in (("vc6", "ablation", 2), ("vc9", "transfer", 3)):
        wanted = get_paper_figure(name)
        found = wanted.draw(FigureData(tuple(match_files_to_requirements(wanted, [Path(f"{file}.nc")]))))
        assert len(found.figure.axes) == panels
    code, _, told = typed("analysis.paper", "vc9", "ablation.nc")
    assert code == 1
    assert "needs a result of analysis.transfer, found ablation.nc: “Ablations" in told
    assert typed("analysis.paper", "vc7", "ablation.nc")[0] == 0
    assert Path("paper-vc7.png").stat().st_size > 10_000


# ------------------------------------------------------------------------------------------- where runs are from


def test_existing_runs_are_reused(typed):
    words = ["ca2", "--runs", 4, "--epochs", 20]
    code, text, _ = typed("analysis.paper", *words)
    assert code == 0
    assert re.search("4 runs of 20 steps, .*, to be made", text)
    (run,) = Path("runs").glob("modular-*.nc")
    before = run.stat().st_mtime_ns
    code, text, _ = typed("analysis.paper", *words, "--out", "again.svg")
    assert code == 0
    assert "found" in text
    assert run.stat().st_mtime_ns == before
    assert Path("runs/paper-ca2.png").exists()
    assert Path("again.svg").read_text().startswith("<?xml")


def test_epochs_are_steps_for_particles(typed):
    code, text, _ = typed("analysis.paper", "ca5", "--runs", 4, "--epochs", 50)
    assert code == 0
    assert "4 runs of 50 steps" in text
    assert "50 steps, 4 runs" in text
    (run,) = Path("runs").glob("particles-*.nc")
    assert int(open_trajectory(run)["step"][-1]) == 50
    assert RequiredRuns(ParticleSettings(), every=5).frame_gap == 5
    assert RequiredRuns(ParticleSettings(), every=0).at(SizeOverrides(epochs=30)).frame_gap == 30


def test_finetuning_starts_from_the_end_of_its_source():
    finetuned = RequiredRuns(dataclasses.replace(TINY, vocab=3), every=0, follows=True)
    wanted = PaperFigure("x", "x", (RequiredRuns(TINY), finetuned), "no time", circuits.vc10)
    first, second = load_figure_runs(wanted, [], SizeOverrides(2, 3), None).datasets
    for name in ("query", "receptor"):
        np.testing.assert_array_equal(second[name].isel(step=0), first[name].isel(step=-1))
    assert second.sizes["step"] == 2


def test_files_are_matched_in_any_order(files):
    found = match_files_to_requirements(get_paper_figure("ca-c"), [files[word] for word in DECAYS])
    assert [embeddings.setting_title(each)[-3:] for each in found] == ["y 1", "0.6", "0.3", "y 0"]


UNSUITABLE = {
    "ca3 fa1": "CA figure 3 needs a trajectory of modular with dim 2, found fa1.nc: particles",
    "ca-c decay1 decay0": "needs a trajectory of modular with weight-decay 0.6, dim 2",
    "ca-e decay0": "found decay0.nc: modular, weight-decay 0.0, dim 2",
    "ca-f dim3": "weight-decay 1, dim 4, found dim3.nc: modular, weight-decay 1.0, dim 3",
    "vc10 heads": "vocab 3, finetuned from another run",
    "ca1 dim3": "modular with dim 2, found dim3.nc",
    "vc5 decay1": "needs a trajectory of sparse",
    "vc6 heads": "needs a result of analysis.ablation, found heads.nc: sparse",
    "vc14 heads3": "sparse with dim 2, found heads3.nc: sparse, data 64, dim 3",
    "vc13 heads2": "found no spike",
    "vc5 heads2": "found no run with two drops",
}


@pytest.mark.parametrize("words", UNSUITABLE)
def test_unsuitable_files_are_rejected(typed, files, words):
    name, *given = words.split()
    code, _, error = typed("analysis.paper", name, *(files[word] for word in given), "--out", "x.png")
    assert code == 1
    assert UNSUITABLE[words] in error
    assert not Path("x.png").exists()


INVALID = {
    **{word: f"FIGURE: found {word}, allowed is one of ca1, ca2, " for word in ("ca7", "vc21", "ca", "figure", "vc0")},
    "ca3 data.png --run 3": "--run: found 3, allowed is a whole number from 0 to 2",
    "ca1 data.png --run 0": "--run: found 0, allowed is no value here",
    "ca3 data.png --out x.gif": "--out: found x.gif",
    "ca3 data.png --small --out x.pdf": "--out: found x.pdf",
    "ca3 data.png --runs 2": "--runs: found 2, allowed is no value beside files",
    "ca3 data.png --out data.png": "--out: found data.png, allowed is another name, as this is a NetCDF file",
    "vc18 --epochs 99": "--epochs: found 99, allowed is a whole number from 100",
    "vc5 --epochs 99": "--epochs: found 99, allowed is a whole number from 100",
    "vc7 --runs 1": "--runs: found 1, allowed is a whole number from 2",
    "vc20 --runs 1": "--runs: found 1, allowed is a whole number from 2",
}


@pytest.mark.parametrize("words", INVALID)
def test_invalid_arguments_are_rejected_before_any_run(typed, files, words):
    Path("data.png").write_bytes(files["decay1"].read_bytes())
    code, _, error = typed("analysis.paper", *words.split())
    assert code == 2
    assert INVALID[words] in error
    assert not Path("runs").exists()


def test_too_few_runs_and_missing_weights_are_rejected(typed):
    simulate(TINY, runs=1, steps=20, out="one.nc", progress=False)
    simulate(TINY, runs=2, steps=20, record="metrics", out="metrics.nc", progress=False)
    assert "successes against failures need 2" in typed("analysis.paper", "vc17", "one.nc")[2]
    assert "metrics.nc: VC figure 2 needs weights" in typed("analysis.paper", "vc2", "metrics.nc")[2]
    assert "not/there.nc" in typed("analysis.paper", "vc2", "not/there.nc")[2]


def test_diverged_runs_are_not_shown(typed, files):
    trajectory = open_trajectory(files["decay1"])
    last = trajectory["last_step"].copy(data=[60, 0, 60])
    status = trajectory["status"].copy(data=np.array([1, 2, 1], np.int8))
    save_trajectory(trajectory.assign(last_step=last, status=status), "lost.nc")
    code, _, error = typed("analysis.paper", "ca3", "lost.nc", "--run", 1)
    assert code == 1
    assert "run 1: diverged after step 0" in error
    assert 1 not in EndStates(open_trajectory("lost.nc")).places
    assert 1 not in runs_with_seeds(open_trajectory("lost.nc"), range(3))[0]


def test_small_picture_has_a_small_file(typed, files):
    assert typed("analysis.paper", "ca1", files["decay1"], "--small", "--out", "s.png")[0] == 0
    with Image.open("s.png") as image:
        assert image.width == 696  # 100 to an inch
        assert image.mode == "P"
    assert os.path.getsize("s.png") < 60_000


# ------------------------------------------------------------------------------------------------------- rules


def planted(*embeddings, accuracy=None):
    """Runs that end at embeddings (token, axis)."""
    x = np.stack(embeddings)[:, None]
    runs = len(x)
    data = {"embedding": (("run", "step", "token", "axis"), x), "last_step": ("run", np.full(runs, 5))}
    coords = {"step": [5], "seed": ("run", 10 + np.arange(runs))}
    if accuracy is not None:
        data["accuracy"] = (("run", "step", "split"), np.reshape(accuracy, (runs, 1, 1)))
        coords["split"] = ["validation"]
    return xr.Dataset(data, coords)


def ring(n=9, times=2):
    angle = 2 * np.pi * times * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def lattice(n=9):
    return np.stack([np.arange(n) % 3 - 1.0, np.arange(n) // 3 - 1.0 + 0.1 * (np.arange(n) % 3)], axis=-1) + 0.01


def test_first_circle_and_best_grid_are_chosen(generator):
    wild = [generator.normal(size=(9, 2)) for _ in range(4)]
    ends = EndStates(planted(wild[0], ring(), wild[1], lattice(), ring(), accuracy=[0.1, 0.9, 0.3, 0.5, 1.0]))
    assert ends.circle_run().run == 1
    assert "the first of 2 circles among 5" in ends.circle_run().why
    assert ends.grid_run().run == 3
    without = EndStates(planted(*wild, lattice()))
    assert without.grid_run().run == 4  # by imperfections, where there is no accuracy
    assert "NO circle among 5" in without.circle_run().why
    assert "ALL 2 runs are circles" in EndStates(planted(ring(), ring())).grid_run().why


def test_imperfect_grid_has_the_median_number_of_imperfections(generator):
    found = EndStates(planted(*(generator.normal(size=(9, 2)) for _ in range(7)), ring()))
    counts = found.imperfections[~found.circle]
    chosen = found.imperfect_run().run
    assert abs(found.imperfections[chosen] - np.median(counts)) == abs(counts - np.median(counts)).min()
    assert index_nearest_median(np.array([4, 7, 9]), np.array([5.0, 1.0, 2.0])) == 9


def test_seeds_of_the_paper_are_shown_if_available():
    whole = planted(*[lattice()] * 25).assign_coords(seed=("run", 8 + np.arange(25)))
    assert runs_with_seeds(whole, range(10, 30))[0] == list(range(2, 22))
    some, told = runs_with_seeds(whole.isel(run=slice(4)), range(10, 30))
    assert some == [0, 1, 2, 3]
    assert "the first 4 runs" in told
    few = whole.isel(run=slice(4))
    figure, told = embeddings.plot_runs_by_trajectory(FigureData((whole, few), small=True), ["one", "two"])
    assert len(figure.axes) == 6 + 4
    assert "one: seeds 10 to 29, as in the paper; two: the first 4 runs, as" in told
    _, told = embeddings.plot_runs_by_trajectory(FigureData((few.isel(run=[0]), few.isel(run=[0]))), ["one", "two"])
    assert told.startswith("Each block: the first 1 runs")


def verdicts(*labels):
    return [CircuitLabel(label, "why", (5,) * (label == "partial"), ()) for label in labels]


def test_circuits_are_chosen_by_label():
    labels = verdicts("none", "corrected", "fuzzy", "corrected", "ideal")
    fits = [circuits.runs_with_label("corrected"), circuits.LEARNED]
    success = np.array([False, False, True, True, True])
    chosen = circuits.first_run_of_kind(labels, success, fits)
    assert chosen.run == 3
    assert "first successful run that is labelled corrected (2 of 5 are)" in chosen.why
    assert circuits.first_run_of_kind(labels, success & False, fits).run == 1
    other = circuits.first_run_of_kind(verdicts("none", "partial"), success, fits)
    assert other.run == 1
    assert other.why.startswith("NO run of 2 is labelled corrected; instead")
    assert circuits.first_run_of_kind(verdicts("partial"), success, [circuits.LACKING_BOTH, circuits.LEARNED]).run == 0
    with pytest.raises(TrajectoryError, match="found no run that is labelled corrected"):
        circuits.first_run_of_kind(verdicts("none"), success, fits)


def test_labels_of_an_ensemble_are_cached(monkeypatch):
    measured = []
    measure = circuits.measure_invariances
    monkeypatch.setattr(circuits, "measure_invariances", lambda *words: measured.append(words) or measure(*words))
    monkeypatch.setattr(circuits, "_labels", {})
    trajectory = simulate(TINY, runs=2, steps=0, progress=False)
    labels = circuits.cached_circuit_labels(trajectory)
    assert circuits.cached_circuit_labels(trajectory.copy(), 0) == labels
    assert len(measured) == 1
    circuits.cached_circuit_labels(trajectory.isel(run=[1]))
    circuits.cached_circuit_labels(trajectory.assign(value=2 * trajectory["value"]))
    assert len(measured) == 3
    for factor in range(4):
        circuits.cached_circuit_labels(trajectory.assign(value=factor * trajectory["value"]))
    assert len(circuits._labels) == circuits.MOST_CACHED_LABELS


def test_ideal_circuit_is_constructed_only_if_no_run_is_ideal(files, monkeypatch):
    trajectory = open_trajectory(files["heads"])
    material = FigureData((trajectory,))
    found = circuits.vc1(material)
    assert "built by hand" in found.here
    assert "NONE of 8 runs" in found.rule
    labels = verdicts("none", "partial", "ideal", *["none"] * 5)
    monkeypatch.setattr(circuits, "cached_circuit_labels", lambda _: labels)
    assert circuits.vc1(material).here.startswith("run 2")


def test_constructed_circuit_is_ideal():
    (label,) = circuits.cached_circuit_labels(circuits.ideal_circuit_trajectory(TINY))
    assert label.label == "ideal"
    with pytest.raises(TrajectoryError, match="no ideal circuit"):
        circuits.ideal_circuit_trajectory(dataclasses.replace(TINY, vocab=5))
    with pytest.raises(SettingsError, match="hidden"):
        circuits.ideal_circuit_trajectory(SparseSettings(hidden=2))


def test_best_finetuned_run_from_a_corrected_circuit_is_chosen():
    accuracy = np.array([1.0, 0.4, 0.8, 0.6])
    tuned = xr.Dataset(
        {"accuracy": (("run", "step", "split"), accuracy[:, None, None]), "last_step": ("run", [5, 5, 5, 5])},
        {"step": [5], "split": ["unseen"], "seed": ("run", [3, 2, 1, 0])},
    )
    places = np.array([3, 2, 1, 0])
    labels = verdicts("corrected", "corrected", "corrected", "partial")
    assert circuits.best_from_corrected(labels, places, tuned).run == 2
    found = circuits.best_from_corrected(verdicts(*["partial"] * 4), places, tuned)
    assert found.run == 0
    assert "NO circuit was labelled corrected" in found.why
    with pytest.raises(TrajectoryError, match="has not diverged"):
        circuits.best_from_corrected(labels, places, tuned.assign(last_step=("run", [0] * 4)))


def test_start_points_of_finetuned_runs(files):
    def tuned_from(runs=4, **changes):
        start = dataclasses.replace(TINY, vocab=3, start=str(files["heads"]), **changes)
        return simulate(start, runs=runs, steps=0, progress=False)

    source, tuned = open_trajectory(files["heads"]), open_trajectory(files["finetuned"])
    places, begun = circuits.finetuning_start_points(source, tuned)
    assert (places.tolist(), begun) == (list(range(8)), int(source["step"][-1]))
    good = np.flatnonzero(source["accuracy"].sel(split="test").isel(step=-1).values > 0.98)
    chosen = tuned_from(len(good), start_step=-1, start_runs="successful")
    assert circuits.finetuning_start_points(source, chosen)[0].tolist() == good.tolist() != list(range(len(good)))
    found = circuits.vc10(FigureData((source, chosen), run=0))
    assert f"those of the source's run {good[0]} at its end, and a new row" in found.rule
    early = tuned_from(start_step=400)
    assert circuits.finetuning_start_points(source, early)[1] == 400
    assert "run 2 at step 400 of 800" in circuits.inherited_weights(source, early, 2, 400)
    wide = simulate(dataclasses.replace(TINY, table=3), runs=1, steps=0, progress=False)
    assert "row" not in circuits.inherited_weights(wide, early, 0, 0)


def test_runs_finetuned_from_another_source_are_rejected(files):
    tuned = open_trajectory(files["finetuned"])
    for settings, runs, seed in ((dataclasses.replace(TINY, lr=0.03), 8, 0), (TINY, 2, 50)):
        other = simulate(settings, runs=runs, steps=800, every=400, seed=seed, out=f"{seed}.nc", progress=False)
        with pytest.raises(TrajectoryError, match="began at other weights than those of the source"):
            circuits.finetuning_start_points(other, tuned)


def test_attention_is_of_the_median_successful_run():
    own = np.array([0.9, 0.1, np.nan, 0.5, 0.3])
    assert attention.run_with_median_attention(own, np.array([True, True, True, True, False])).run == 3
    assert "NONE of them successful" in attention.run_with_median_attention(own, np.zeros(5, bool)).why
    with pytest.raises(TrajectoryError, match="attention at both ends"):
        attention.run_with_median_attention(np.full(2, np.nan), np.ones(2, bool))


def two_phases(between):
    runs = len(between)
    begin = np.stack([np.full(runs, 95.0), np.full(runs, 305.0)], axis=1)
    data = {"begin": (("run", "phase"), begin), "end": (("run", "phase"), begin + 20), "between": ("run", between)}
    return xr.Dataset({**data, "drops": ("run", np.full(runs, 1))})


def test_snapshots_are_at_begin_and_end_of_the_drops():
    found = two_phases([50.0, np.nan, 10.0, 90.0, 70.0])
    assert phases.run_with_median_drop_gap(found, np.array([True, True, True, True, False])).run == 0
    assert "NONE of them successful" in phases.run_with_median_drop_gap(found, np.zeros(5, bool)).why
    trajectory = xr.Dataset(coords={"step": np.arange(0, 500, 10)})
    assert phases.drop_snapshots(trajectory, found, 0) == [90, 120, 300, 330]
    with pytest.raises(TrajectoryError, match="run 1: found 1 drops"):
        phases.drop_snapshots(trajectory, found, 1)


def test_drops_are_those_of_the_whole_run(files, monkeypatch):
    monkeypatch.setattr(phases, "MARGIN", 0.0)  # so that the second drop, found in what is shown, would end elsewhere
    trajectory = open_trajectory(files["heads"])
    found = loss_events.first_two_drops(loss_events.event_table(loss_events.trajectory_scalar(trajectory, "loss")), 8)
    run = int(np.flatnonzero(found["between"] > 0)[0])
    begin, end = (found[name].values[run] / TINY.epoch_steps for name in ("begin", "end"))
    shown = phases.vc5(FigureData((trajectory,), run))
    moments = [np.floor(begin[0]), np.ceil(end[0]), np.floor(begin[1]), np.ceil(end[1])]  # frames are epochs
    epochs = ", ".join(f"{each:g}" for each in moments)
    assert shown.here.endswith(f"epochs {epochs}")
    assert f"analysis.events finds them: epochs {epochs} (the paper" in shown.rule
    losses = [axes for axes in shown.figure.axes if axes.get_label().endswith("-loss")]
    for axes, moment in zip(losses, moments, strict=True):
        bands = [(band.get_x(), band.get_x() + band.get_width()) for band in axes.patches]
        np.testing.assert_allclose(bands, np.stack([begin, end], axis=1), atol=0.5 / TINY.epoch_steps)
        assert cursor_of(axes) == moment


def cursor_of(axes):
    """Where the cursor of curves stands."""
    (found,) = (line.get_xdata()[0] for line in axes.lines if line.get_animated())
    return found


def test_spike_is_shown_at_its_foot_and_after_its_rise(files, monkeypatch):
    data = FigureData((open_trajectory(files["heads"]),))
    found = spikes.highest_crossing_spike(data)
    monkeypatch.setattr(spikes, "highest_crossing_spike", lambda _: found)
    shown = spikes.vc13(data)
    what = spikes.examine_spike(data.only, found.spike, None).values
    assert found.moments == (what["foot"], what["at"] + 1)
    losses = [axes for axes in shown.figure.axes if axes.get_label().endswith("-loss")]
    assert [cursor_of(axes) for axes in losses] == [step / TINY.epoch_steps for step in found.moments]
    assert all(not axes.patches for axes in losses)  # a replay of some steps has no events of its own
    right = found.path["accuracy"].sel(split="train", step=list(found.moments)).values[0]
    words = [text.get_text() for text in shown.figure.texts]
    assert f"before: {right[0]:.0%} of training right" in words
    assert f"after: {right[1]:.0%} of training right" in words
    assert f"after is {spikes.format_delay(found.moments)}, behind" in shown.rule
    assert f"spike at epoch {found.spike.step / TINY.epoch_steps:g}" in shown.here


def test_highest_spike_explained_by_a_boundary_is_chosen(files, monkeypatch):
    trajectory = open_trajectory(files["heads"])
    seen, of = spikes.highest_spikes(trajectory, None)
    heights = [each.height - each.level for each in seen]
    assert heights == sorted(heights, reverse=True)
    assert "successful" in of
    at = {"foot": 0, "at": 1}
    unclear, clear = {"cause": "neither", "explained": False, **at}, {"cause": "feed-forward", "explained": True, **at}
    found = {seen[1]: clear}

    def examine(trajectory, spike, on):
        return SpikeExamination(found.get(spike, unclear), None, None)

    monkeypatch.setattr(spikes, "examine_spike", examine)
    assert spikes.highest_crossing_spike(FigureData((trajectory,))).spike == seen[1]
    found.clear()
    one = spikes.highest_crossing_spike(FigureData((trajectory,)))
    assert one.spike == seen[0]
    assert one.why.startswith("NO spike")
    with pytest.raises(TrajectoryError, match="found no spike of the loss of the run that was asked for"):
        spikes.highest_spikes(trajectory.assign(loss=0 * trajectory["loss"]), 0)


def test_summary_of_settings():
    one = simulate(ModularSettings(weight_decay=1.0), runs=2, steps=4, seed=3, progress=False)
    other = simulate(ModularSettings(weight_decay=0.3, lr=0.02), runs=2, steps=4, seed=3, progress=False)
    assert (
        settings_summary(one)
        == "modular addition: N = 17, D = 2, H = 32, weight decay = 1, 4 epochs, 2 runs from seed 3"
    )
    assert "weight decay = 1, 0.3, lr = 0.01, 0.02, 4 epochs, 2 runs each from seed 3" in settings_summary(one, other)
