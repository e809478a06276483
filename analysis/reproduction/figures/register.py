"""All figures of the papers: what each shows, which runs it needs, and the function
that draws it."""

import dataclasses
import re
import textwrap
import tomllib
from collections.abc import Iterator
from importlib.resources import files

from analysis.reproduction.experiment import RequiredRuns, SizeOverrides
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
from analysis.reproduction.zhong2023 import attention_rate_claims
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
)

DRAWING_MODULES = (
    attention_figures,
    circuit_figures,
    embedding_figures,
    ensemble_figures,
    origin_figures,
    phase_figures,
    spike_figures,
    transformer_figures,
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
SPARSE_RUNS = RequiredRuns(SparseSettings())
MODULAR = (dataclasses.replace(_modular_runs(1.0), must=("dim",)),)
DECAY_06 = (_modular_runs(0.6),)
TABLE_1 = tuple(map(_modular_runs, (1.0, 0.6, 0.3, 0.0)))
WEIGHT_DECAYS = tuple(_modular_runs(tenths / 10, 10, every=0) for tenths in range(11))
HIGHER_DIMENSIONS = (_modular_runs(1.0, 7, 3), _modular_runs(1.0, 8, 4))
PARTICLES = (dataclasses.replace(_particle_runs(1.0), must=("dim",)),)
TABLE_2 = tuple(map(_particle_runs, (1.0, 2.0, 0.5)))
SPARSE, PLANE = (SPARSE_RUNS,), (dataclasses.replace(SPARSE_RUNS, must=("dim",)),)
MINI_BATCHES = (dataclasses.replace(SPARSE_RUNS, weights=False),)
MINI_BATCHES_3 = (sparse_runs(3, weights=False),)
FULL_BATCH, FULL_BATCH_3 = (_full_batch_runs(2),), (_full_batch_runs(3),)
FINETUNING = (
    dataclasses.replace(sparse_runs(2, 100), must=("vocab",)),
    RequiredRuns(SparseSettings(vocab=3), every=0, must=("vocab",), follows=True),
)
DIMENSIONS = (
    sparse_runs(2, 100),
    sparse_runs(3),
    *(sparse_runs(dim, every=0) for dim in (4, 8, 16, 32)),
)
ABLATIONS = (ensemble_figures.ABLATIONS,)
TRANSFERS = (ensemble_figures.TRANSFERS,)
ATTENTION_RATES = tuple(
    attention_rate_claims.ensembles(attention_rate_claims.RATE.default.params)
)
GROKKING = tuple(grokking_claims.ensembles(grokking_claims.PHASES.default.params))
"""The runs that figures need."""


def _read_figures() -> Iterator[PaperFigure]:
    """The figures that figures.toml lists, in its order."""
    text = files("analysis.reproduction.figures").joinpath("figures.toml")
    functions = {
        name: value
        for module in DRAWING_MODULES
        for name, value in vars(module).items()
    }
    for name, row in tomllib.loads(text.read_text("utf-8")).items():
        least = SizeOverrides(**row.pop("least", {}))
        needs, draw = globals()[row.pop("needs")], functions[row.pop("draw")]
        yield PaperFigure(name, needs=needs, draw=draw, least=least, **row)


PAPER_FIGURES = tuple(_read_figures())


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
