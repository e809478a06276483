"""Figures of CA: embeddings of its network and particles at the end, class maps, and
the size of weights."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from analysis.forces import hidden_weights
from analysis.output.counts import count_of
from analysis.plots.class_maps import (
    add_axes_in_inches,
    draw_class_key,
    draw_class_map,
    draw_embedding,
    final_state,
)
from analysis.plots.embedding_grid import draw_tokens
from analysis.plots.figure_files import new_figure
from analysis.plots.weights_figure import plot_weights
from analysis.reproduction.experiment import RequiredRuns
from analysis.reproduction.figures.figure import (
    DrawnFigure,
    FigureData,
    PaperFigure,
    RunChoice,
    name_run,
    own_style,
)
from analysis.reproduction.figures.run_rules import (
    EndStates,
    final_embeddings,
    runs_not_diverged,
    runs_with_seeds,
)
from analysis.reproduction.musat2024.decay_by_part_claims import (
    PARTS,
    decayed_part_settings,
)
from analysis.structures.circles_and_grids import (
    count_imperfections,
    is_circle,
    structure_label,
)
from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.trajectory.schema import read_settings

GAP, HEAD = 0.12, 0.42  # inches: between panels, room for the title of one
KINDS_NOTE = "○ is a circle by algorithm 1, a number counts the imperfections of others"
TOKENS_NOTE = (
    "tokens numbered, coloured by hue and joined in their order, hollow marks beside"
    " their places; equal axes through the origin"
)


def setting_title(trajectory: xr.Dataset) -> str:
    """The weight decay of networks, or the alignment of particles, as a title has
    it."""
    settings = read_settings(trajectory)
    if isinstance(settings, ParticleSettings):
        return f"f_a = {settings.fa:g}"
    return f"weight decay {settings.weight_decay:g}"  # type: ignore[attr-defined]


# ------------------------------------------------------------ embeddings of chosen runs


def ca1(data: FigureData) -> DrawnFigure:
    """A grid and a circle."""
    ends = EndStates(data.only)
    return _plot_chosen_runs(
        data, {"Left": ends.grid_run(), "Right": ends.circle_run()}, 3.3, "Embeddings"
    )


def ca2(data: FigureData) -> DrawnFigure:
    """An imperfect grid."""
    return _plot_chosen_runs(
        data,
        {"Chosen": data.choose(EndStates(data.only).imperfect_run)},
        4.2,
        "Embedding",
    )


def ca5(data: FigureData) -> DrawnFigure:
    """A circle, a grid and an imperfect grid."""
    ends = EndStates(data.only)
    chosen = {
        "Left": ends.circle_run(),
        "Middle": ends.grid_run(),
        "Right": ends.imperfect_run(),
    }
    return _plot_chosen_runs(data, chosen, 3.2, "Particles")


def _plot_chosen_runs(
    data: FigureData, chosen: dict[str, RunChoice], side: float, what: str
) -> DrawnFigure:
    """The last embeddings of runs in one row of panels."""
    trajectory = data.only
    figure = new_figure(len(chosen) * (side + GAP) + GAP, side + HEAD + GAP)
    names = [name_run(trajectory, value.run) for value in chosen.values()]
    for place, (item, name) in enumerate(zip(chosen.values(), names, strict=True)):
        axes = add_axes_in_inches(figure, GAP + place * (side + GAP), GAP, side, side)
        x = final_embeddings(trajectory)[item.run]
        draw_tokens(axes, x)
        axes.set_title(f"{name}: {structure_label(x)}", pad=3)
    rule = " ".join(f"{where}: {value.why}." for where, value in chosen.items())
    here = (
        f"{what.lower()} of {(' and ' if len(names) == 2 else ', ').join(names)},"
        f" {setting_title(trajectory)}"
    )
    seeds = trajectory["seed"].values[[value.run for value in chosen.values()]].tolist()
    return DrawnFigure(figure, here, f"{rule} {what} at the end, {TOKENS_NOTE}.", seeds)


# --------------------------------------------------------------------------- class maps


def ca3(data: FigureData) -> DrawnFigure:
    """Embedding and class map of a grid."""
    return _plot_with_class_map(data, data.choose(EndStates(data.only).grid_run))


def ca4(data: FigureData) -> DrawnFigure:
    """Embedding and class map of a circle."""
    return _plot_with_class_map(data, data.choose(EndStates(data.only).circle_run))


def _plot_with_class_map(data: FigureData, chosen: RunChoice) -> DrawnFigure:
    """A run's embedding beside the class map of the plane with its pair sums."""
    figure = _plot_class_map_pairs(data.only, [chosen.run], 1, 3.9)
    rule = (
        f"Chosen: {chosen.why}. Left: the embedding at the end. Right: the predicted"
        " class of every point of the "
        "plane, and the sums of the embeddings of all pairs."
    )
    here = (
        f"embedding and class map of {name_run(data.only, chosen.run)},"
        f" {setting_title(data.only)}"
    )
    return DrawnFigure(figure, here, rule, [int(data.only["seed"][chosen.run])])


def ca_e(data: FigureData) -> DrawnFigure:
    """Fourteen embeddings beside their class maps, or four in a small picture."""
    runs, rule = runs_with_seeds(data.only, range(10, 24), 4 if data.small else None)
    columns, side = (2, 2.5) if data.small else (3, 2.9)
    figure = _plot_class_map_pairs(data.only, runs, min(columns, len(runs)), side)
    rule = (
        f"{rule[0].upper()}{rule[1:]}. Left of each pair the embedding at the end,"
        " right the predicted class of "
        "every point of the plane with the pair sums."
    )
    seeds = data.only["seed"].values[runs].tolist()
    return DrawnFigure(
        figure,
        f"{count_of(len(runs), 'run')}, {setting_title(data.only)}",
        rule,
        seeds,
    )


def _plot_class_map_pairs(
    trajectory: xr.Dataset, runs: Sequence[int], columns: int, side: float
) -> Figure:
    """A pair of panels a run, embedding and class map, over a legend of both."""
    rows = -(-len(runs) // columns)
    key = 0.75
    head = 1.5 * HEAD
    pair = 2 * side + 2 * GAP
    width = columns * (pair + 2 * GAP)
    figure = new_figure(width, rows * (side + head) + key + GAP)
    for place, run in enumerate(runs):
        state = final_state(trajectory, run)
        left = GAP + place % columns * (pair + 2 * GAP)
        bottom = figure.get_figheight() - (place // columns + 1) * (side + head)
        embedding = add_axes_in_inches(figure, left, bottom, side, side)
        draw_embedding(embedding, state, name_run(trajectory, run))
        class_map = add_axes_in_inches(figure, left + side + GAP, bottom, side, side)
        draw_class_map(class_map, state)
    half = width / 2
    strip = add_axes_in_inches(figure, half - 0.6, 0.32, half, 0.16)
    key_axes = add_axes_in_inches(figure, GAP, 0.05, half - 0.9, key - 0.1)
    draw_class_key(key_axes, strip, read_settings(trajectory))  # type: ignore[arg-type]
    return figure


# ----------------------------------------------------------------------- blocks of runs


def ca_c(data: FigureData) -> DrawnFigure:
    """Twenty embeddings for each of four weight decays, or of three alignments of
    particles (appendix D); six in a small picture."""
    words = [setting_title(dataset) for dataset in data.datasets]
    figure, rule, seeds = plot_runs_by_trajectory(data, words)
    what = (
        "Particles"
        if data.only.attrs["system"] == ParticleSettings.system
        else "Embeddings"
    )
    here = ", ".join([words[0], *(word.split(" ")[-1] for word in words[1:])])
    return DrawnFigure(
        figure, here, f"{rule} {what} at the end, {TOKENS_NOTE}; {KINDS_NOTE}.", seeds
    )


def ca_decay(data: FigureData) -> DrawnFigure:
    """Twenty embeddings with weight decay of each part of the network, six in a small
    picture."""
    articles = {"classifier": "the ", "embedding": "the "}
    words = [f"weight decay of {articles.get(part, '')}{part}" for part in PARTS]
    figure, rule, seeds = plot_runs_by_trajectory(data, words)
    here = f"weight decay 1 of {', '.join(PARTS)}"
    texts = f"{rule} Embeddings at the end, {TOKENS_NOTE}; {KINDS_NOTE}."
    return DrawnFigure(figure, here, texts, seeds)


def plot_runs_by_trajectory(
    data: FigureData, words: Sequence[str]
) -> tuple[Figure, str, list[int]]:
    """A block of runs for each trajectory, under its word; which runs these are, in
    words and by their seeds."""
    blocks = []
    rules = []
    drawn: dict[int, None] = {}
    for trajectory, word in zip(data.datasets, words, strict=True):
        runs, said = runs_with_seeds(
            trajectory, range(10, 30), SMALL_COLUMNS if data.small else None
        )
        rules.append(said)
        embeddings = final_embeddings(trajectory)[runs]
        seeds = trajectory["seed"].values[runs].tolist()
        drawn |= dict.fromkeys(seeds)
        kinds = ["○" if is_circle(x) else count_imperfections(x) for x in embeddings]
        blocks.append(
            (
                word,
                embeddings,
                [f"{seed}: {kind}" for seed, kind in zip(seeds, kinds, strict=True)],
            )
        )
    figure = _plot_panel_blocks(blocks, SMALL_COLUMNS if data.small else COLUMNS)
    if len(set(rules)) == 1:
        return figure, f"Each block: {rules[0]}.", list(drawn)
    return (
        figure,
        "; ".join(f"{word}: {said}" for word, said in zip(words, rules, strict=True))
        + ".",
        list(drawn),
    )


PLANES = {3: ((0, 1), (0, 2), (1, 2)), 4: ((0, 1), (1, 2), (2, 3))}
"""Axes on which embeddings are projected, by their number."""


def ca_f(data: FigureData) -> DrawnFigure:
    """Embeddings in three and four dimensions, each in three projections; four runs of
    each in a small picture."""
    blocks = []
    counts = []
    drawn: dict[int, None] = {}
    for trajectory, most in zip(data.datasets, (7, 8), strict=True):
        runs = runs_not_diverged(trajectory)[: 4 if data.small else most]
        seeds = trajectory["seed"].values[runs].tolist()
        dim = trajectory.sizes["axis"]
        drawn |= dict.fromkeys(seeds)
        counts.append(
            f"{count_of(len(runs), 'run')} with D = {dim} (the paper: {most})"
        )
        for first, second in PLANES[dim]:
            x = final_embeddings(trajectory)[runs][..., [first, second]]
            blocks.append(
                (
                    f"D = {dim}: axes {first + 1} and {second + 1}",
                    x,
                    [f"seed {seed}" for seed in seeds],
                )
            )
    figure = _plot_panel_blocks(blocks, COLUMNS)
    rule = (
        f"The first {' and '.join(counts)}, a column each, in three projections on two"
        " axes; the paper does not say "
        f"which of the six there are for D = 4. {TOKENS_NOTE.capitalize()}."
    )
    return DrawnFigure(
        figure, f"D = 3 and D = 4, {setting_title(data.only)}", rule, list(drawn)
    )


COLUMNS, SMALL_COLUMNS = 10, 6
Block = tuple[str, np.ndarray, Sequence[str]]
"""Its title, embeddings (panel, token, 2), and the titles of their panels."""


def _plot_panel_blocks(blocks: Sequence[Block], most: int) -> Figure:
    """Blocks of small panels, so many in a line, each block under its title."""
    side, head, title = 1.28, 0.2, 0.32  # inches
    columns = min(most, max(len(embeddings) for _, embeddings, _ in blocks))
    lines = [-(-len(embeddings) // most) for _, embeddings, _ in blocks]
    height = sum(lines) * (side + head) + len(blocks) * title + 0.1
    figure = new_figure(max(3.0, columns * (side + 0.06) + 0.12), height)
    top = figure.get_figheight()
    for (word, embeddings, names), count in zip(blocks, lines, strict=True):
        figure.text(
            0.1 / figure.get_figwidth(),
            (top - 0.2) / height,
            word,
            va="center",
        )
        top -= title
        for place, (x, name) in enumerate(zip(embeddings, names, strict=True)):
            left = 0.09 + place % most * (side + 0.06)
            axes = add_axes_in_inches(
                figure, left, top - (place // most + 1) * (side + head), side, side
            )
            draw_tokens(axes, x, mark=44, letters=5.2)
            axes.set_title(name, pad=2)
        top -= count * (side + head)
    return figure


# ---------------------------------------------------------------------- size of weights


def ca6(data: FigureData) -> DrawnFigure:
    """Size of the hidden weights and biases against weight decay."""
    decays = [read_settings(dataset).weight_decay for dataset in data.datasets]  # type: ignore[attr-defined]
    result = dict(
        sorted(
            zip(decays, map(hidden_weights.measure_weights, data.datasets), strict=True)
        )
    )
    groups = {
        value: hidden_weights.mean_weight_measures(runs)
        for value, runs in result.items()
    }
    runs = data.only.sizes["run"]
    title = f"{count_of(runs, 'network')} a weight decay, means with 95% intervals"
    with own_style(data):
        figure = plot_weights(
            groups, hidden_weights.groups_by_structure(list(result.values())), title
        )
    rule = (
        "All runs. Left: the paper's figure. Middle and right: what the paper says of"
        " it in words (5.2), measured: "
        "the alignment of hidden weights with pair sums, with chance levels."
    )
    return DrawnFigure(
        figure, f"{len(result)} weight decays", rule, data.only["seed"].values.tolist()
    )


# -------------------------------------------------------------------------- the figures


def _networks(
    weight_decay: float, dim: int = 2, runs: int = 100, every: int | None = None
) -> RequiredRuns:
    """Networks of CA's recipe. The experiment table1 uses the same runs."""
    settings = ModularSettings(weight_decay=weight_decay, dim=dim)
    return RequiredRuns(settings, runs, every=every)


MODULAR = (_networks(1.0),)
DECAY_06 = (_networks(0.6),)
TABLE_1 = tuple(map(_networks, (1.0, 0.6, 0.3, 0.0)))
WEIGHT_DECAYS = tuple(_networks(tenths / 10, runs=10, every=0) for tenths in range(11))
DECAY_BY_PART = tuple(
    RequiredRuns(settings, 30, every=0) for settings in decayed_part_settings()
)
HIGHER_DIMENSIONS = (_networks(1.0, 3, runs=7), _networks(1.0, 4, runs=8))
PARTICLES = (RequiredRuns(ParticleSettings(fa=1.0)),)
TABLE_2 = tuple(RequiredRuns(ParticleSettings(fa=fa)) for fa in (1.0, 2.0, 0.5))

FIGURES = (
    PaperFigure(
        "ca1", "embeddings at the end: a grid and a circle", MODULAR, "7 s", ca1
    ),
    PaperFigure(
        "ca2", "embeddings at the end: an imperfect grid", MODULAR, "7 s", ca2, True
    ),
    PaperFigure(
        "ca3",
        "a grid: embedding, and class map of the plane with pair sums",
        MODULAR,
        "7 s",
        ca3,
        one_run=True,
    ),
    PaperFigure(
        "ca4",
        "a circle: embedding, class map of the plane with pair sums",
        MODULAR,
        "7 s",
        ca4,
        one_run=True,
    ),
    PaperFigure(
        "ca5",
        "particles at the end: a circle, a grid, an imperfect grid; made with f_a = 1,"
        " as in section 6",
        PARTICLES,
        "2 s",
        ca5,
    ),
    PaperFigure(
        "ca6",
        "size of hidden weights and biases against weight decay, 10 networks each",
        WEIGHT_DECAYS,
        "15 s",
        ca6,
    ),
    PaperFigure(
        "ca-c",
        "embeddings at the end, seeds 10 to 29, weight decay 1, .6, .3 and 0",
        TABLE_1,
        "30 s",
        ca_c,
    ),
    PaperFigure(
        "ca-d",
        "particles at the end, seeds 10 to 29, f_a = 1, 2 and .5",
        TABLE_2,
        "5 s",
        ca_c,
    ),
    PaperFigure(
        "ca-decay",
        "embeddings at the end, seeds 10 to 29, with weight decay 1 of nothing, of the"
        " classifier, of the embedding and of all",
        DECAY_BY_PART,
        "10 s",
        ca_decay,
    ),
    PaperFigure(
        "ca-e",
        "embeddings beside class maps, seeds 10 to 23, weight decay .6",
        DECAY_06,
        "7 s",
        ca_e,
    ),
    PaperFigure(
        "ca-f",
        "embeddings with D = 3 (7 runs) and D = 4 (8 runs), three projections each; the"
        " paper does not specify which three of six for D = 4; here neighbouring axes",
        HIGHER_DIMENSIONS,
        "5 s",
        ca_f,
    ),
)
