"""Every figure of the commands in every style: texts neither overlap nor are cut,
legends cover no data, limits are those of the data."""

import contextlib
import copy
import dataclasses
import warnings

import matplotlib.pyplot as plt
import pytest
import torch

import dynamics
from analysis import plots
from analysis.panels.style import STYLES
from analysis.reproduction import figures
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    TransformerSettings,
    simulate,
)
from tests.analysis.plots.rendering import faults, faults_of_axes

RUNS = {
    "particles": (ParticleSettings(fa=2.0), {"runs": 8}),
    "many": (ParticleSettings(n=199), {"runs": 2, "steps": 4}),
    "modular": (ModularSettings(weight_decay=1.0), {"runs": 8, "steps": 600}),
    "sparse": (
        SparseSettings(data=256, batch=32, lr=0.01),
        {"runs": 8, "steps": 1600, "every": 8},
    ),
    "few": (
        SparseSettings(length=5, sparsity=2, data=64, batch=16, hidden=8, lr=0.02),
        {"runs": 3, "steps": 160},
    ),
    "transformer": (
        TransformerSettings(n=7, dim=16, heads=2, hidden=32),
        {"runs": 2, "steps": 60, "every": 4},
    ),
}
FOUR = "--runs 4 --frames 6"
TINY = "--length 5 --sparsity 2 --data 60 --batch 16"
ANALYSES = [
    f"paper ablation --points 3 --max-hidden 20 {TINY} --runs 3 --epochs 2",
    "audit modular.nc",
    "circuits sparse.nc",
    "compare modular.nc particles.nc",
    f"curvature sparse.nc {FOUR}",
    "curvature mine0.nc mine1.nc --loss mine.py --eigenvalues 2 --frames 4",
    "edge modular.nc --runs 2 --frames 4",
    "events sparse.nc",
    "fixed_points --steps 20 --push 1e-3 1e-2 --length 6 --hidden 6 --data 50 --sparsity 3",
    "formation particles.nc",
    "gradients sparse.nc",
    "landscape modular.nc --points 9",
    "llc modular.nc --runs 2 --frames 3 --draws 20",
    "noise modular.nc --runs 2 --frames 4",
    "overview sparse.nc --runs 4 --show loss speed rank",
    "pair_law modular.nc --runs 3",
    "progress transformer.nc",
    "paper remedies few.nc --hidden 12 --assembler-decays 0.1",
    "paper scaling --n 5 7 --values 1 2 --runs 6 --length 20",
    "sparsity sparse.nc",
    "spectral_density modular.nc --runs 1 --frames 3",
    "spikes sparse.nc",
    f"paper transfer {TINY} --runs 4 --epochs 20 --vocabs 3 4",
    "weight_spectra sparse.nc --runs 4 --frames 6",
    "paper weights --runs 4 --epochs 30 --n 5 --hidden 6 --weight-decays 0 1",
]
MORE_ANALYSES = [
    f"paper ablation --panels lr --points 3 {TINY} --runs 1 --epochs 2",
    "activations mine0.nc mine1.nc --frames 5",
    "audit modular.nc transformer.nc",
    "audit transformer.nc",
    "compare modular.nc",
    f"curvature particles.nc {FOUR}",
    f"curvature modular.nc {FOUR}",
    "curvature mine0.nc --loss mine.py --eigenvalues 2 --frames 4",
    "events modular.nc sparse.nc",
    "fate particles.nc --runs 4 --frames 4 --copies 8",
    "formation modular.nc particles.nc",
    "gradients modular.nc",
    "landscape modular.nc --points 9 --plane random",
    "landscape modular.nc --points 9 --plane lines",
    "paper scaling --n 3 4 5 6 7 8 9 10 11 12 13 --values 1 2 --runs 4 --length 20",
]
"""Other data for the same figures, and what takes long; with `make test-all`."""
SIMULATIONS = [
    "modular --runs 3 --epochs 400 --n 5 --weight-decay 1",
    f"sparse {TINY} --runs 3 --epochs 4",
    "sweep particles --runs 3 --steps 20 --n 7 --fa 0.5 1 2",
    "transformer --runs 2 --epochs 20 --n 7 --dim 8 --heads 2",
]
MORE_SIMULATIONS = [
    "modular --runs 2 --epochs 20 --n 7 --hidden 8 --dim 3 --record metrics",
    "particles --runs 6 --steps 20 --n 7",
    "sweep modular --runs 3 --epochs 20 --n 5 --hidden 6 --lr 0.003 0.01 0.1 --weight-decay 0 1",
]
FRAMES = [
    "particles.nc",
    "particles.nc --panels all",
    "particles.nc particles.nc",
    "many.nc",
    "modular.nc --panels all",
    "modular.nc particles.nc",
    "sparse.nc",
    "sparse.nc --panels all",
    "transformer.nc --panels all",
]
FILMS = ["particles.nc --out a.gif", "modular.nc particles.nc --out a.gif", "sparse.nc"]
PAPER_FIGURES = [
    *("ca1", "ca2", "ca3", "ca4", "ca5"),
    *("vc1", "vc8", "vc12", "vc16"),
]


COLUMN = ("paper", True)
"""Style, and whether the figure has the width of a column."""
MODEL_FILE = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
inputs = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))

def loss(parameters, batch):
    return torch.func.functional_call(model, parameters, (batch,)).square().mean()

def batches():
    yield inputs.double()
"""


def record_model(folder):
    """Two recordings of a small model, with its weights and activations, and its
    file."""
    (folder / "mine.py").write_text(MODEL_FILE)
    exec(MODEL_FILE, source := {})
    inputs = source["inputs"]
    options = {"activations": {"first": "0", "last": "2"}, "probe": inputs}
    options |= {"weights": True, "moments": True}
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = copy.deepcopy(source["model"])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        path = folder / f"mine{seed}.nc"
        with dynamics.record(model, optimizer, path, seed=seed, **options) as recording:
            for _ in range(8):
                optimizer.zero_grad()
                model(inputs).square().mean().backward()
                optimizer.step()
                recording.step()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a file of runs of each system, and recordings of a model."""
    folder = tmp_path_factory.mktemp("rendering")
    for name, (settings, options) in RUNS.items():
        simulate(settings, out=folder / f"{name}.nc", **options).close()
    record_model(folder)
    return folder


@pytest.fixture
def run_command(runs, monkeypatch, typed):
    """A function that runs a command line in the folder of the runs."""
    monkeypatch.chdir(runs)

    def run(line, package="analysis"):
        program, *arguments = line.split()
        code, _, errors = typed(f"{package}.{program}", *arguments)
        assert code == 0, errors

    yield run
    plt.close("all")


class Drawings:
    """Checks each figure that a command saves instead of saving it, and keeps what
    draws the figure, to draw it again in another style.

    first: the style of the command's own figure, and whether it is a column's, instead
    of the command's; None for the command's."""

    def __init__(self, monkeypatch, first=None):
        self.first, self.functions, self.faults = first, [], []
        for name in plots.__all__:
            if name.startswith("plot_") or name == "class_map_figure":
                monkeypatch.setattr(plots, name, self.kept(getattr(plots, name)))
        monkeypatch.setattr(plots, "save_figure", self.check)

    def kept(self, plot):
        def draw(*arguments, **options):
            self.functions.append(lambda: plot(*arguments, **options))
            with self.style():
                return plot(*arguments, **options)

        return draw

    def style(self):
        """A context in which the command's own figure is drawn."""
        return plots.use_style(*self.first) if self.first else contextlib.nullcontext()

    def check(self, figure, path):
        with self.style():
            self.faults += faults(figure, bool(self.first) and self.first[1])
            self.faults += faults_of_axes(figure)

    def check_again(self, style, column):
        with no_layout_warnings(self.faults), plots.use_style(style, column):
            for draw in self.functions:
                figure = draw()
                self.faults += faults(figure, column) + faults_of_axes(figure)


@contextlib.contextmanager
def no_layout_warnings(found):
    """Adds warnings about the layout to a list of faults."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    found += [
        str(item.message)
        for item in caught
        if any(word in str(item.message) for word in ("layout", "Glyph"))
    ]


def test_the_style_dark_differs_from_screen_only_in_its_colours():
    assert dataclasses.replace(STYLES["dark"], dark=False) == STYLES["screen"]


@pytest.mark.parametrize(
    ("package", "line"),
    [
        *(("analysis", line) for line in ANALYSES),
        *(("sims", line) for line in SIMULATIONS),
        *(
            pytest.param(package, line, marks=pytest.mark.slow)
            for package, lines in (
                ("analysis", MORE_ANALYSES),
                ("sims", MORE_SIMULATIONS),
            )
            for line in lines
        ),
    ],
)
def test_figures_of_commands(package, line, run_command, monkeypatch, request):
    """In a column, where there is least room, and on the screen; with `make test-all`
    as the command draws them, in a column, and on the width of a page. The style `dark`
    has the layout of `screen`."""
    is_quick = request.config.option.markexpr
    drawings = Drawings(monkeypatch, COLUMN if is_quick else None)
    with no_layout_warnings(drawings.faults):
        run_command(line, package)
    assert drawings.functions
    if is_quick:
        drawings.check_again("screen", False)
    else:
        drawings.check_again(*COLUMN)
        drawings.check_again("paper", False)
    assert not drawings.faults, "\n".join(drawings.faults)


@pytest.mark.parametrize("line", FRAMES)
def test_frames(line, run_command, monkeypatch):
    found, state = [], []

    def check(grid, path, dpi):
        found.extend(f"{state}: {words}" for words in faults(grid.figure, state[1]))
        path.write_bytes(b"")

    monkeypatch.setattr(plots.PanelGrid, "save", check)
    layouts = [("screen", False), ("paper", "all" not in line)]  # too many for a column
    for style, column in layouts:
        state[:] = style, column
        with no_layout_warnings(found):
            run_command(f"frame {line} --style {style}{' --column' * column}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("line", FILMS)
def test_frames_of_films(line, run_command, monkeypatch):
    found = []

    def check(grid, film, path, fps, size):
        for frames in film.frames[[0, len(film.frames) // 2, -1]].tolist():
            scenes = zip(grid.scenes, frames, strict=True)
            grid.show(frames, [scene.arrays([frame]) for scene, frame in scenes])
            found.extend(faults(grid.figure))
        path.write_bytes(b"")

    monkeypatch.setattr(plots, "write_film", check)
    run_command(f"film {line}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PAPER_FIGURES)
def test_figures_of_the_papers(name, run_command, monkeypatch):
    drawn, save = [], figures.save_with_caption

    def keep(figure, *arguments):
        drawn.append(figure)
        return save(figure, *arguments)

    monkeypatch.setattr(figures, "save_with_caption", keep)
    system = "modular" if name[0] == "c" else "sparse"
    system = "particles" if name == "ca5" else system
    with no_layout_warnings(found := []):
        run_command(f"paper {name} {system}.nc")
        found += [line for line in faults(drawn[0]) if not line.startswith("cut")]
    assert not found, "\n".join(found)
