"""Plates of circuits of VC's network: ideal, learned, and finetuned; and attention at the start and at the end."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch
import xarray as xr
from matplotlib.figure import Figure

from analysis.figures import new_figure
from analysis.heads.handmade import ideal_circuit
from analysis.heads.inheritance import inherited
from analysis.heads.invariances import invariances
from analysis.heads.labels import Verdict, verdicts
from analysis.panels import scene
from analysis.plates.choice import median_of
from analysis.plates.plate import Chosen, Drawn, Material, alive, named
from analysis.plates.settings_line import settings_line
from analysis.plates.sheets import still
from analysis.view.scene import Image, Scene
from dynamics.clustering_head import ClusteringHead
from dynamics.networks import clustering_head_of
from dynamics.settings import SettingsError, SparseSettings
from dynamics.simulate import simulate
from dynamics.storage import TrajectoryError
from dynamics.tasks import distinct, sparse_sum
from dynamics.trajectory import settings_of
from dynamics.transfer import successful

PANELS = (
    "token_embeddings", "position_embeddings", "sums", "normalised_sums",
    "attention", "values", "sequence_embeddings", "transform_map",
)  # fmt: skip
SIDE = 200
"""Of a class map, in pixels."""

LEGEND = (
    "Circles: positions that count; squares: others. Sentences: one colour a prefix, shapes by class; the map has the "
    "predicted class of a sequence embedding, paler where less sure."
)


WIDTH = 1360
"""Of the panels, in pixels."""


def circuit(trajectory: xr.Dataset, run: int, step: int | None = None, title: str = "") -> Figure:
    """The panels of a run's circuit at a recorded step, the last by default."""
    last = int(trajectory["last_step"][run])
    moment = trajectory.sel(step=[last if step is None else step])  # alone, so that limits are those of this frame
    made = scene(moment, run, side=SIDE, panels=PANELS)
    return still([dataclasses.replace(made, title=title or made.title)], [0], PANELS, 4, WIDTH)


def labelled(trajectory: xr.Dataset) -> list[Verdict]:
    """The label of every run. Raises TrajectoryError."""
    return verdicts(invariances(trajectory))


# --------------------------------------------------------------------------------------------- the four kinds


Kind = tuple[str, Callable[[Verdict], bool]]
"""What a run is called in words, and whether a label is of that kind."""


def kind_plate(material: Material, *kinds: Kind) -> Drawn:
    """The first successful run of a kind, or of the next one named where there is none of the first."""
    trajectory = material.only
    if material.run is not None:
        (label,) = labelled(trajectory.isel(run=[material.run]))
        why = f"the run that was asked for, labelled {label.label}: {label.reason}"
        return of_run(trajectory, Chosen(material.run, why))
    return of_run(trajectory, first_of_kind(labelled(trajectory), successful(trajectory), kinds))


def first_of_kind(labels: Sequence[Verdict], success: np.ndarray, kinds: Sequence[Kind]) -> Chosen:
    """The first run of the first kind that there is; successful ones come first. Raises TrajectoryError."""
    wanted = kinds[0][0]
    for words, fits in kinds:
        of_kind = [run for run, label in enumerate(labels) if fits(label)]
        if of_kind:
            run = min(of_kind, key=lambda each: not success[each])
            lacking = "" if words == wanted else f"NO run of {len(labels)} is {wanted}; instead "
            some = "first successful run" if success[run] else "first run"
            rule = f"{lacking}the {some} that is {words} ({len(of_kind)} of {len(labels)} are)"
            return Chosen(run, f"{rule}: {labels[run].reason}")
    raise TrajectoryError(f"found no run that is {wanted} among {len(labels)}, nor any that has learned the task")


def of_run(trajectory: xr.Dataset, chosen: Chosen) -> Drawn:
    """The circuit of a run at its end."""
    figure = circuit(trajectory, chosen.run)
    rule = f"Chosen: {chosen.why}. {LEGEND}"
    return Drawn(figure, f"{named(trajectory, chosen.run)}, at the end", settings_line(trajectory), rule)


def vc1(material: Material) -> Drawn:
    """An ideal circuit: of a run, or built by hand where no run is ideal."""
    trajectory = material.only
    settings = settings_of(trajectory)
    assert isinstance(settings, SparseSettings)
    labels = [] if material.run is not None else labelled(trajectory)
    if material.run is not None or any(each.label == "ideal" for each in labels):
        return kind_plate(material, labelled_as("ideal"))
    figure = circuit(handmade(settings), 0, title=f"ideal circuit, p = {settings.vocab}, d = {settings.dim}")
    rule = (
        f"NONE of {len(labels)} runs is labelled ideal (at least .9 of the attention on the positions that count, all "
        "alike, no other position of effect), so this circuit was built by hand, to have what section 3.1 asks for. "
    )
    return Drawn(figure, "built by hand, as no run is ideal", settings_line(trajectory), rule + LEGEND)


def handmade(settings: SparseSettings) -> xr.Dataset:
    """The ideal circuit as a trajectory of a single frame. Raises SettingsError."""
    try:
        weights = ideal_circuit(settings)
    except ValueError as error:
        if isinstance(error, SettingsError):
            raise
        raise TrajectoryError(f"no ideal circuit is known for this task: {error}") from None
    found = simulate(settings, runs=1, steps=0, progress=False)
    for name, weight in weights.items():
        found[name] = found[name].copy(data=weight.float().numpy().reshape(found[name].shape))
    share, loss = judged(settings, weights)
    found["accuracy"] = found["accuracy"].copy(data=np.full(found["accuracy"].shape, share, np.float32))
    found["loss"] = found["loss"].copy(data=np.full(found["loss"].shape, loss, np.float32))
    return found


@torch.no_grad()
def judged(settings: SparseSettings, weights: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Accuracy and loss of weights on the distinct training sequences of seed 0."""
    tokens = distinct(settings, 0, "train")[0]
    target = torch.from_numpy(sparse_sum(tokens, settings))
    logits = ClusteringHead(settings).logits(weights, torch.from_numpy(tokens))
    loss = torch.nn.functional.cross_entropy(logits, target)
    return float((logits.argmax(-1) == target).double().mean()), float(loss)


def labelled_as(label: str) -> Kind:
    """Runs with a label."""
    return f"labelled {label}", lambda each: each.label == label


LEARNED: Kind = ("a run that has learned the task, however", lambda each: each.label != "none")
LACKING_BOTH: Kind = (
    "labelled partial and lacks invariance both to a suffix and to an order",
    lambda each: each.label == "partial" and bool(each.leaking) and bool(each.apart),
)


def vc2(material: Material) -> Drawn:
    """Faulty attention, corrected by the value matrix."""
    return kind_plate(material, labelled_as("corrected"), labelled_as("part of the values"), LEARNED)


def vc3(material: Material) -> Drawn:
    """Partially learned invariances."""
    return kind_plate(material, LACKING_BOTH, labelled_as("partial"), LEARNED)


def vc4(material: Material) -> Drawn:
    """A fuzzy construction."""
    return kind_plate(material, labelled_as("fuzzy"), labelled_as("partial"), LEARNED)


# ------------------------------------------------------------------------------------------------ finetuning


def vc10(material: Material) -> Drawn:
    """A circuit of p = 2 with a token more, as finetuning begins."""
    return finetuned(material, 0)


def vc11(material: Material) -> Drawn:
    """The same circuit when finetuning has ended."""
    return finetuned(material, -1)


def finetuned(material: Material, frame: int) -> Drawn:
    """The circuit of a finetuned run in its first or last frame."""
    source, trajectory = material.datasets
    chosen = carried(source, trajectory) if material.run is None else Chosen(material.run, "the run that was asked for")
    step = int(trajectory["step"][frame])
    figure = circuit(trajectory, chosen.run, step)
    when = "before finetuning" if frame == 0 else "after finetuning"
    vocab = trajectory.sizes["token"]
    rule = (
        f"Chosen: {chosen.why}. Its first weights are those that the run of the same seed ended with for p = 2, "
        f"and a new "
        f"row of the embedding. {LEGEND}"
    )
    return Drawn(figure, f"{named(trajectory, chosen.run)}, p = {vocab}, {when}", settings_line(trajectory), rule)


def carried(source: xr.Dataset, trajectory: xr.Dataset) -> Chosen:
    """Of the runs labelled corrected, as that of figure 2, the one that is best after finetuning."""
    at = {int(seed): place for place, seed in enumerate(source["seed"].values)}
    places = [int(run) for run in alive(trajectory) if int(trajectory["seed"][run]) in at]
    if not places:
        raise TrajectoryError("found no finetuned run whose source is in the other file, and which has not diverged")
    labels = labelled(source)
    corrected = [run for run in places if labels[at[int(trajectory["seed"][run])]].label == "corrected"]
    split = "unseen" if "unseen" in trajectory["split"].values else "test"
    accuracy = trajectory["accuracy"].sel(split=split).isel(step=-1).values
    best = max(corrected or places, key=lambda run: accuracy[run])
    rule = f"of {len(corrected)} runs whose circuit was labelled corrected, as that of figure 2," if corrected else (
        f"NO circuit was labelled corrected; of all {len(places)} runs"
    )  # fmt: skip
    return Chosen(best, f"{rule} the first with the best accuracy after finetuning, {accuracy[best]:.3f} ({split})")


# ------------------------------------------------------------------------------------------------- attention


def vc8(material: Material) -> Drawn:
    """Attention at the start and at the end of training."""
    trajectory = material.only
    network = clustering_head_of(trajectory)
    own = np.diagonal(inherited(trajectory).values)
    chosen = typical(own, successful(trajectory)) if material.run is None else Chosen(
        material.run, f"the run that was asked for; its maps correlate by {own[material.run]:.2f}"
    )  # fmt: skip
    made = scene(trajectory, chosen.run, panels=["attention"])
    last = len(made.steps) - 1
    figure = attention_maps(made, [0, last])
    rule = (
        f"Chosen: {chosen.why}. A row a sentence, its prefix of {network.settings.sparsity} tokens that count and its "
        "suffix. Rows sum to 1."
    )
    return Drawn(figure, f"{named(trajectory, chosen.run)}", settings_line(trajectory), rule)


def attention_maps(made: Scene, frames: Sequence[int]) -> Figure:
    """The attention of sentences at frames, a map each, with the sentences beside the first and one scale."""
    (image,) = made.panels[0].layers
    assert isinstance(image, Image)
    figure = new_figure(10.5, 0.16 * len(image.rows) + 1.2)
    panels = figure.subplots(1, len(frames), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.14, right=0.9, top=0.93, bottom=0.1, wspace=0.06)
    values = made.arrays(np.array(frames))["attention"]
    for axes, found, frame, word in zip(panels, values, frames, ("start", "end"), strict=True):
        drawn = axes.imshow(found, aspect="auto", cmap="viridis", vmin=0, vmax=image.high, interpolation="nearest")
        axes.set_xticks(range(len(image.columns)), image.columns, fontsize=8)
        axes.set_xlabel("position, from 0", fontsize=9)
        axes.set_title(f"{word} of training, {made.unit} {made.clock[frame]:g}", fontsize=10)
    panels[0].set_yticks(range(len(image.rows)), image.rows, fontsize=7.5, family="monospace")
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.92, 0.1, 0.015, 0.83)))
    bar.set_label("attention, a share of 1", fontsize=9)
    return figure


def typical(own: np.ndarray, success: np.ndarray) -> Chosen:
    """Of the successful runs that whose attention at both ends correlates as much as in the median. Raises
    TrajectoryError."""
    known = np.isfinite(own)
    able = np.flatnonzero(known & success)
    word = "successful runs"
    if not len(able):
        able, word = np.flatnonzero(known), "runs, NONE of them successful"
    if not len(able):
        raise TrajectoryError("dimension run: found none that has attention at both ends, expected one at least")
    run = median_of(able, own[able])
    return Chosen(run, f"the median correlation, {own[run]:.2f}, of the two maps among {len(able)} {word}")
