"""All figures of the papers: what each shows, which runs it needs, and the function
that draws it."""

import dataclasses
import re
import textwrap

from analysis.reproduction.figures import (
    attention_figures,
    circuit_figures,
    embedding_figures,
    ensemble_figures,
    origin_figures,
    phase_figures,
    spike_figures,
    transformer_figures,
)
from analysis.reproduction.figures.figure import PaperFigure
from analysis.reproduction.nanda2023 import grokking_claims
from analysis.reproduction.verification.experiment import RequiredRuns, SizeOverrides
from analysis.reproduction.zhong2023 import attention_rate_claims
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
)


def _modular_runs(
    weight_decay: float, runs: int = 100, dim: int = 2, every: int | None = None
) -> RequiredRuns:
    """Networks of CA's recipe, with which `analysis.table1` shares those of its
    rows."""
    settings = ModularSettings(weight_decay=weight_decay, dim=dim)
    return RequiredRuns(settings, runs, every=every, must=("weight_decay", "dim"))


def _particle_runs(fa: float) -> RequiredRuns:
    """Particles, with which `analysis.table2` shares those of its rows."""
    return RequiredRuns(ParticleSettings(fa=fa), must=("fa", "dim"))


def sparse_runs(
    dim: int, runs: int = 20, every: int | None = None, weights: bool = True
) -> RequiredRuns:
    """VC's network with embeddings of a dimension."""
    return RequiredRuns(
        SparseSettings(dim=dim),
        runs,
        every=every,
        must=("batch", "dim"),
        weights=weights,
    )


def _full_batch_runs(dim: int) -> RequiredRuns:
    """VC's network with all data in a batch, so that an epoch is one update."""
    settings = SparseSettings(batch=SparseSettings.data, dim=dim)
    return RequiredRuns(
        settings, 20, epochs=UPDATES, every=4, must=("batch", "dim"), weights=False
    )


UPDATES = 4000
DECAYS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SPARSE_RUNS = RequiredRuns(SparseSettings())
MODULAR = (dataclasses.replace(_modular_runs(1.0), must=("dim",)),)
PARTICLES = (dataclasses.replace(_particle_runs(1.0), must=("dim",)),)
SPARSE, PLANE = (SPARSE_RUNS,), (dataclasses.replace(SPARSE_RUNS, must=("dim",)),)
MINI_BATCHES = (dataclasses.replace(SPARSE_RUNS, weights=False),)
FINETUNING = (
    dataclasses.replace(sparse_runs(2, 100), must=("vocab",)),
    RequiredRuns(SparseSettings(vocab=3), every=0, must=("vocab",), follows=True),
)
DIMENSIONS = (
    sparse_runs(2, 100),
    sparse_runs(3),
    *(sparse_runs(dim, every=0) for dim in (4, 8, 16, 32)),
)
ATTENTION_RATES = tuple(
    attention_rate_claims.ensembles(attention_rate_claims.RATE.default.params)
)
GROKKING = tuple(grokking_claims.ensembles(grokking_claims.PHASES.default.params))
ENOUGH, TWO = SizeOverrides(epochs=100), SizeOverrides(runs=2)
"""Epochs in which events can be seen, of full batches in every fourth; runs that can
differ."""
MINUTE, MINUTES = "1 minute", "2 minutes"

PAPER_FIGURES = (
    PaperFigure(
        "ca1",
        "embeddings at the end: a grid and a circle",
        MODULAR,
        "7 s",
        embedding_figures.ca1,
        picks=False,
    ),
    PaperFigure(
        "ca2",
        "embeddings at the end: an imperfect grid",
        MODULAR,
        "7 s",
        embedding_figures.ca2,
    ),
    PaperFigure(
        "ca3",
        "a grid: embedding, and class map of the plane with pair sums",
        MODULAR,
        "7 s",
        embedding_figures.ca3,
    ),
    PaperFigure(
        "ca4",
        "a circle: embedding, class map of the plane with pair sums",
        MODULAR,
        "7 s",
        embedding_figures.ca4,
    ),
    PaperFigure(
        "ca5",
        "particles at the end: a circle, a grid, an imperfect grid; made with f_a = 1, as in section 6",
        PARTICLES,
        "2 s",
        embedding_figures.ca5,
        picks=False,
    ),
    PaperFigure(
        "ca6",
        "size of hidden weights and biases against weight decay, 10 networks each",
        tuple(_modular_runs(decay, 10, every=0) for decay in DECAYS),
        "15 s",
        embedding_figures.ca6,
        picks=False,
    ),
    PaperFigure(
        "ca-c",
        "embeddings at the end, seeds 10 to 29, weight decay 1, .6, .3 and 0",
        tuple(map(_modular_runs, (1.0, 0.6, 0.3, 0.0))),
        "30 s",
        embedding_figures.ca_c,
        picks=False,
    ),
    PaperFigure(
        "ca-d",
        "particles at the end, seeds 10 to 29, f_a = 1, 2 and .5",
        tuple(map(_particle_runs, (1.0, 2.0, 0.5))),
        "5 s",
        embedding_figures.ca_c,
        picks=False,
    ),
    PaperFigure(
        "ca-e",
        "embeddings beside class maps, seeds 10 to 23, weight decay .6",
        (_modular_runs(0.6),),
        "7 s",
        embedding_figures.ca_e,
        picks=False,
    ),
    PaperFigure(
        "ca-f",
        "embeddings with D = 3 (7 runs) and D = 4 (8 runs), three projections each; the paper does not "
        "specify which three of six for D = 4; here neighbouring axes",
        (_modular_runs(1.0, 7, 3), _modular_runs(1.0, 8, 4)),
        "5 s",
        embedding_figures.ca_f,
        picks=False,
    ),
    PaperFigure(
        "vc1",
        "the ideal circuit: embeddings, attention, values, sequence embeddings and the class map; "
        "constructed by hand if no run is ideal",
        SPARSE,
        MINUTE,
        circuit_figures.vc1,
    ),
    PaperFigure(
        "vc2",
        "the same, with faulty attention that the values correct",
        SPARSE,
        MINUTE,
        circuit_figures.vc2,
    ),
    PaperFigure(
        "vc3",
        "the same, with partially learned invariances",
        SPARSE,
        MINUTE,
        circuit_figures.vc3,
    ),
    PaperFigure(
        "vc4", "the same for a fuzzy construction", SPARSE, MINUTE, circuit_figures.vc4
    ),
    PaperFigure(
        "vc5",
        "two-phase learning: the map of classes with the sequence embeddings where the two drops of the "
        "loss begin and end, as they are found",
        SPARSE,
        MINUTE,
        phase_figures.vc5,
        ENOUGH,
    ),
    PaperFigure(
        "vc6",
        "test accuracy of one run against batch size, width, learning rate, MLP discount",
        (ensemble_figures.ABLATIONS,),
        "30 minutes",
        ensemble_figures.vc6,
        picks=False,
    ),
    PaperFigure(
        "vc7",
        "the same for 100 runs: mean and standard deviation",
        (ensemble_figures.ABLATIONS,),
        "30 minutes",
        ensemble_figures.vc7,
        TWO,
        picks=False,
    ),
    PaperFigure(
        "vc8",
        "attention at the start and the end of training, p = 2",
        SPARSE,
        MINUTE,
        attention_figures.vc8,
    ),
    PaperFigure(
        "vc9",
        "accuracy for p = 2 to 10 from scratch and finetuned from p = 2",
        (ensemble_figures.TRANSFERS,),
        "10 minutes",
        ensemble_figures.vc9,
        picks=False,
    ),
    PaperFigure(
        "vc10",
        "a circuit as in figure 2 with a token more, p = 3",
        FINETUNING,
        MINUTES,
        circuit_figures.vc10,
    ),
    PaperFigure(
        "vc11",
        "the same after 1000 epochs of finetuning",
        FINETUNING,
        MINUTES,
        circuit_figures.vc11,
    ),
    PaperFigure(
        "vc12",
        "steps near the origin of the normalisation: a sketch as the paper's; next to it slopes of the "
        "norms, and distances of runs from the origin",
        SPARSE,
        MINUTE,
        origin_figures.vc12,
        picks=False,
    ),
    PaperFigure(
        "vc13",
        "a loss spike, sequence embeddings before and after",
        SPARSE,
        MINUTES,
        spike_figures.vc13,
        ENOUGH,
    ),
    PaperFigure(
        "vc14",
        "the same spike: change of sequence embeddings, MLP output weights, change of the MLP's "
        "response",
        PLANE,
        MINUTES,
        spike_figures.vc14,
        ENOUGH,
    ),
    PaperFigure(
        "vc15",
        f"losses, accuracies and gradient norms of a run trained on full batches, {UPDATES} updates "
        "(unknown in VC)",
        (_full_batch_runs(2),),
        MINUTES,
        ensemble_figures.vc15,
        ENOUGH,
    ),
    PaperFigure(
        "vc16",
        "the same with mini-batches",
        MINI_BATCHES,
        MINUTE,
        ensemble_figures.vc15,
        ENOUGH,
    ),
    PaperFigure(
        "vc17",
        "sparsity of activations against the threshold, 20 runs",
        SPARSE,
        MINUTE,
        ensemble_figures.vc17,
        TWO,
        picks=False,
    ),
    PaperFigure(
        "vc18",
        "figure 15 with d = 3",
        (_full_batch_runs(3),),
        MINUTES,
        ensemble_figures.vc15,
        ENOUGH,
    ),
    PaperFigure(
        "vc19",
        "figure 16 with d = 3",
        (sparse_runs(3, weights=False),),
        "20 s",
        ensemble_figures.vc15,
        ENOUGH,
    ),
    PaperFigure(
        "vc20",
        "figure 17 with d = 2, 3, 4, 8, 16 and 32, 20 runs each",
        DIMENSIONS,
        "5 minutes",
        ensemble_figures.vc17,
        TWO,
        picks=False,
    ),
    PaperFigure(
        "zl-rates",
        "gradient symmetricity, distance irrelevance and circularity over the attention rate, "
        "beside the table of ZL's runs",
        ATTENTION_RATES,
        "20 minutes",
        transformer_figures.zl_rates,
        picks=False,
    ),
    PaperFigure(
        "na-phases",
        "losses, progress measures and phases of a network that generalises late",
        GROKKING,
        "5 minutes",
        transformer_figures.na_phases,
        picks=False,
    ),
)


def get_paper_figure(name: str) -> PaperFigure:
    """The figure with a name, such as ca3; case and punctuation do not matter. Raises
    SettingsError."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    for paper_figure in PAPER_FIGURES:
        if paper_figure.name.replace("-", "") == letters:
            return paper_figure
    raise SettingsError(
        "figure",
        name,
        "one of " + ", ".join(paper_figure.name for paper_figure in PAPER_FIGURES),
    )


def format_figure_list() -> str:
    """A list of all figures: the runs that each needs, how long these take to compute,
    and what the figure shows."""
    lines = [f"{'figure':11}{'in the paper':16}{'needs':22}to make"]
    for paper_figure in PAPER_FIGURES:
        lines.append(
            f"{paper_figure.name:11}{paper_figure.source:16}{_format_required_runs(paper_figure):22}{paper_figure.cost}"
        )
        lines += textwrap.wrap(
            paper_figure.shows, 100, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    return "\n".join(lines) + "\n\n" + LEGEND


LEGEND = """needs: system and number of runs, unless files are given; existing runs are read from runs/
to make: time to compute missing runs on two cores; --runs and --epochs give smaller ensembles
python -m analysis.table1 and analysis.table2 reproduce CA tables 1 and 2; the two algorithms of CA appendix A are in
analysis/structures/circles_and_grids.py, and appendix B is figure 6"""


def _format_required_runs(figure: PaperFigure) -> str:
    """The ensembles that a figure needs, in a few words."""
    sizes: dict[str, list[int]] = {}
    for need in figure.needs:
        if not isinstance(need, RequiredRuns):
            return need.command
        sizes.setdefault(need.settings.system, []).append(need.runs)
    return "; ".join(
        f"{name} {f'{len(runs)} x ' * (len(runs) > 1)}{runs[0]}"
        for name, runs in sizes.items()
    )
