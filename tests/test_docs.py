"""The pages in docs/: what they show works as it stands, and a system from outside goes
through everything."""

import dataclasses
import hashlib
import importlib
import pathlib
import re
import runpy
import shlex
import shutil
import signal
import sys
from typing import ClassVar
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from matplotlib.image import imread
from numpy.testing import assert_allclose, assert_array_equal

from analysis import plots
from analysis.command_line.command_list import EXPERIMENTS
from analysis.command_line.parsing import parse_options
from analysis.panels import build_scene, panel_names, run_scene
from analysis.structures import (
    modular_embedding,
)
from docs.momentum import MomentumSettings, MomentumSystem
from dynamics import (
    TrajectoryError,
    branch,
    open_trajectory,
    register,
    replay,
    simulate,
)
from dynamics import settings as table
from dynamics import system as registry
from dynamics.errors import Interrupted
from dynamics.forces import CA, law_json
from dynamics.law_files import LAW_ATTRIBUTE
from dynamics.recording import recording
from dynamics.settings import SYSTEM_MODULES_VARIABLE, ParticleSettings, SettingsError
from dynamics.sweeps import load_script
from dynamics.trajectory import DIVERGED, closed_parts, read_settings
from sims.command_line import default_command as command_line
from sims.command_line.sweep_options import (
    script_sweep_options,
    sweep_command_options,
)
from tests import naive
from tests.commands import arguments_of
from tests.conftest import ROOT
from tests.dynamics.test_external_systems import Noise, NoiseSettings
from tests.interruptions import interrupt_at

TABLES = (table.SETTINGS_CLASSES, registry.SYSTEM_CLASSES)
for each in TABLES:  # what else this process tests knows nothing of the example
    del each["momentum"]

DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.glob("**/*.md") if "_build" not in page.parts)
OWN_SYSTEM, FORMAT, OWN_MODEL, EXAMPLE = (
    (DOCS / name).read_text()
    for name in (
        "guides/own-system.md",
        "guides/trajectory-format.md",
        "guides/own-model.md",
        "momentum.py",
    )
)
ON_ENSEMBLES = ("audit", "events", "gradients", "formation")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
(
    ON_CHECK,
    ON_EXAMPLE,
    ON_RUNS,
    ON_PANELS,
    ON_REACH,
    ON_REACHING,
) = BLOCK.findall(OWN_SYSTEM)
ON_FORMAT, ON_PLAIN_FORMAT = BLOCK.findall(FORMAT)
SETTINGS = MomentumSettings(fa=2.0, n=7, momentum=0.8)


@pytest.fixture(autouse=True)
def registered(restored_registries):
    """The example is known while a test of this module runs."""
    with mock.patch.dict(run_scene.PANEL_BUILDERS):
        register(MomentumSettings, MomentumSystem)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A file of the example and one of particles."""
    folder = tmp_path_factory.mktemp("runs")
    with mock.patch.dict(TABLES[0]), mock.patch.dict(TABLES[1]):
        register(MomentumSettings, MomentumSystem)
        for settings in (SETTINGS, ParticleSettings(fa=2.0, n=7)):
            simulate(settings, runs=6, out=folder / f"{settings.system}.nc").close()
    return folder


@pytest.fixture
def files(made):
    """The same, in the folder of the test."""
    return tuple(
        shutil.copy(made / name, name) for name in ("momentum.nc", "particles.nc")
    )


def run(settings=SETTINGS, runs=4, **amount):
    return simulate(settings, runs=runs, **amount)


# ---------------------------------------------------------------------------- the pages


def execute(code):
    """The names that a block of a page defines."""
    file = pathlib.Path(
        "docs_page.py"
    ).resolve()  # from which Python reads a function's source
    file.write_text(code)
    exec(compile(code, str(file), "exec"), names := {})
    return names


def test_the_page_contains_the_example():
    assert ON_EXAMPLE == EXAMPLE
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 72


def test_the_page_on_batch_normalisation_and_compiled_models(capsys):
    execute("\n".join(BLOCK.findall((DOCS / "guides/own-model-layers.md").read_text())))
    modes = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [mode for mode, _ in modes] == ["train", "eval"]
    assert float(modes[0][1]) != pytest.approx(float(modes[1][1]), rel=0.01)
    assert open_trajectory("norm.nc")["buffer.1.running_mean"].dims[:2] == (
        "run",
        "step",
    )
    assert open_trajectory("compiled.nc")["embedding"].sizes["token"] == 8
    assert open_trajectory("accumulated.nc").sizes["step"] == 6


def test_the_page_on_the_format(capsys):
    for _ in range(2):  # what is done twice finds what there is
        names = execute(ON_FORMAT)
    xr.testing.assert_equal(names["plain"].load(), names["trajectory"].load())
    with open_trajectory("runs/two.nc") as some:
        assert some["seed"].values.tolist() == [1, 4]
        assert_array_equal(some["embedding"], names["trajectory"]["embedding"][[1, 4]])
    assert capsys.readouterr().out.splitlines()[-1] == "[ 0  4  8 12]"
    assert "dynamics" not in ON_PLAIN_FORMAT
    execute(ON_PLAIN_FORMAT)
    assert "'checkpoint': " in capsys.readouterr().out


def test_the_page_on_the_format_describes_a_file():
    with run(ParticleSettings(n=5), steps=4, out="a.nc") as result:
        plain = {"title", "Conventions", "schema_version", "comment"}
        parts = {*map(str, (*result.dims, *result.variables)), *result.attrs} - plain
    assert parts <= set(re.findall(r"`(\w+)`", FORMAT))
    data = pathlib.Path("a.nc").read_bytes()
    assert (
        data[-73:]
        == b"\nsha256:" + hashlib.sha256(data[:-73]).hexdigest().encode() + b"\n"
    )


def test_the_lines_of_python_about_the_example():
    execute(ON_CHECK)
    names = execute(ON_RUNS)
    whole, again = names["trajectory"], names["again"]
    assert whole["step"].values[-1] == 120
    assert again["step"].values.tolist() == list(range(30, 51))
    shared = again.sel(step=slice(32, 48, 4))["embedding"]
    assert_array_equal(
        shared, whole["embedding"].isel(run=[2]).sel(step=shared["step"])
    )


@pytest.mark.parametrize(
    "name",
    [
        "get-started",
        "particles",
        "networks",
        "own-force",
        "own-optimizer",
        "sweeps",
        "resume-replay-branch",
    ],
)
def test_the_python_of_the_guides_runs(name):
    blocks = BLOCK.findall(
        next(page for page in PAGES if page.stem == name).read_text()
    )
    assert blocks
    execute("\n".join(blocks))


@pytest.mark.parametrize(("name", "text"), [("paper", 6.5), ("dark", 9.0)])
def test_own_figures_have_the_style_in_use(name, text):
    (code,) = BLOCK.findall((DOCS / "guides" / "figures.md").read_text())
    names = execute(
        code.replace('"paper"', f'"{name}"').replace("runs=runs", "runs=runs, steps=20")
    )
    figure, axes = names["figure"], names["axes"]
    labels = [
        axes.xaxis.label,
        axes.yaxis.label,
        *axes.get_xticklabels(),
        *axes.get_yticklabels(),
    ]
    assert {label.get_fontsize() for label in labels} == {text}
    drawn = axes.get_tightbbox()
    assert 0 <= drawn.x0 < drawn.x1 <= figure.bbox.width
    assert 0 <= drawn.y0 < drawn.y1 <= figure.bbox.height
    with plots.use_style(name):
        background = to_rgba(plots.colour("background"))
    assert figure.get_facecolor() == axes.get_facecolor() == background
    assert pathlib.Path("circles.csv").read_text().count("\n") == 6
    assert pathlib.Path("circles.pdf").stat().st_size > 1000
    assert (plt.rcParams["figure.facecolor"], plt.rcParams["font.size"]) == (
        "white",
        10,
    )


TYPED = re.compile(
    r"(?:^|`)python (?:-m )?((?:(?:sims|analysis)\.\w|docs/momentum)[^`\n]*?)"
    r" *(?:#.*$|$|`)",
    re.MULTILINE,
)
COMMANDS = [
    (page.name, words)
    for page in (*PAGES, ROOT / "README.md")
    for words in TYPED.findall(page.read_text().replace(" \\\n   ", ""))
]


@pytest.mark.parametrize(("page", "words"), COMMANDS)
def test_the_command_lines_can_be_parsed(page, words, monkeypatch):
    program, *arguments = shlex.split(words)
    if program == "analysis.paper" and set(arguments[:1]) & set(EXPERIMENTS):
        program = f"{program} {arguments.pop(0)}"
    if program == "docs/momentum.py":
        options = command_line.system_options(MomentumSettings)
    elif program == "sims.sweep" and arguments[:1] == ["own.py"]:
        block = BLOCK.findall((DOCS / "guides" / "sweeps.md").read_text())[-1]
        pathlib.Path("own.py").write_text(block)
        options = script_sweep_options(load_script("own.py"))
    elif program == "sims.sweep":
        options = sweep_command_options(table.SETTINGS_CLASSES)
    else:
        options = arguments_of(program)
    if "--law" in arguments:
        path = pathlib.Path(arguments[arguments.index("--law") + 1])
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".json":
            path.write_text(law_json(CA))
        else:
            xr.Dataset(attrs={LAW_ATTRIBUTE: law_json(CA)}).to_netcdf(path)
    if "--train-pairs-file" in arguments:
        path = pathlib.Path(arguments[arguments.index("--train-pairs-file") + 1])
        path.write_text("0,0\n")
    if page == "own-optimizer.md":
        (code,) = BLOCK.findall((DOCS / "guides" / page).read_text())[:1]
        execute(code)  # registers the optimizer
    monkeypatch.setattr("sys.argv", [program, *arguments])
    if not arguments and page != "README.md":  # it is spoken of
        return
    if "--help" in arguments:
        with pytest.raises(SystemExit) as end:
            parse_options(options, program)
        assert end.value.code == 0
    else:
        assert parse_options(options, program)


FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if not page.stem.startswith("report")],
    ids=lambda page: page.name,
)
def test_code_is_as_narrow_as_the_page(page):
    for kind, code in FENCED.findall(page.read_text()):
        is_directive = kind.startswith("{")
        lines = [] if is_directive else code.splitlines()
        assert [line for line in lines if len(line) > 88] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert "://" in link or (page.parent / link).exists(), link


# -------------------------------------------------------------------------- the example


def test_a_step_is_that_of_the_heavy_ball():
    """Polyak's rule by plain loops, over as many steps as rounding lets be compared."""
    result = run(SETTINGS, runs=1, steps=8)["embedding"].values[0]
    x, before = result[0], result[0]
    for after in result[1:]:
        moved = (
            x
            + SETTINGS.step_size * naive.total_force(x, SETTINGS)
            + SETTINGS.momentum * (x - before)
        )
        x, before = naive.normalise(moved, SETTINGS.variance), x
        assert_allclose(after, x, atol=1e-9)


SETTINGS_VARIABLES = ("embedding", "velocity", "gradient_norm", "update_norm")


def test_interrupted_extended_replayed_branched_and_single_runs_have_the_bits_of_one_long_run():
    whole = run(steps=60)
    with interrupt_at(MomentumSystem, 23):
        run(steps=30, out="a.nc")
    assert closed_parts("a.nc")[-1].end == 23
    assert read_settings(open_trajectory("a.nc")) == SETTINGS
    run(steps=30, out="a.nc").close()
    result, again, alone = (
        run(steps=60, out="a.nc"),
        replay("a.nc", 2, 17, 41),
        run(runs=1, seed=3, steps=60),
    )
    same, calmer = branch("a.nc", 25), branch("a.nc", 25, momentum=0.0)
    for name in (*SETTINGS_VARIABLES, "step"):
        assert_array_equal(result[name], whole[name])
    for name in SETTINGS_VARIABLES:
        assert_array_equal(again[name], whole[name][[2], 17:42])
        assert_array_equal(same[name], whole[name][:, 25:])
        assert_array_equal(alone[name], whole[name][3:])
    assert not np.array_equal(calmer["embedding"][:, -1], whole["embedding"][:, -1])
    with pytest.raises(SettingsError, match="n: found 5"):
        branch("a.nc", 25, n=5)


def test_a_run_that_diverges_stands_still(monkeypatch):
    """The second of three, whose force is too large from step 10 on; the others know
    nothing of it."""
    system, whole = MomentumSystem(SETTINGS), run(runs=3, steps=20)
    real = system.plain.force

    def force(x):
        total, norm = real(x)
        too_large = (x[1] == whole["embedding"].values[1, 10]).all()
        return total, np.where(too_large & (np.arange(len(x)) == 1), np.inf, norm)

    monkeypatch.setattr(system.plain, "force", force)
    monkeypatch.setitem(
        registry.SYSTEM_CLASSES, "momentum", lambda settings, device: system
    )
    result = run(runs=3, steps=20, out="a.nc")
    assert result["last_step"].values.tolist() == [20, 10, 20]
    assert result["status"].values.tolist() == [1, DIVERGED, 1]
    for name in SETTINGS_VARIABLES:
        expected = whole[name].values.copy()
        expected[1, 11:] = expected[1, 10]
        assert_array_equal(result[name], expected)


def test_invalid_settings_and_those_of_a_system_that_is_not_registered_are_refused(
    monkeypatch,
):
    for name, value in (
        *(("momentum", value) for value in (1.0, -0.1, "much")),
        ("step_rule", "direction"),
        ("n", 0),
    ):
        with pytest.raises(SettingsError, match=f"{name}: found {value}"):
            MomentumSettings(**{name: value})
    monkeypatch.delitem(registry.SYSTEM_CLASSES, "momentum")
    with pytest.raises(
        SettingsError,
        match="system of the settings: found momentum, allowed is one of particles",
    ):
        simulate(SETTINGS, runs=1, steps=1)


# --------------------------------------------------------------- what takes files of it


ON_FILES = [
    ("analysis.events A", "momentum-events.png"),
    ("analysis.gradients A --run 2", "momentum-gradients.png"),
    ("analysis.formation A B --out both.nc", "both.png"),
    ("analysis.compare A --out c.nc", "c.png"),
    ("analysis.compare A B --out c.nc", "c.png"),
    ("analysis.frame A B --run 1 --out a.svg", "a.svg"),
    (
        "sims.particles --start A --start-step -1 --n 7 --runs 3 --steps 9 --out b.nc",
        "b.png",
    ),
    ("sims.runs --folder .", None),
]


@pytest.mark.parametrize(("words", "written"), ON_FILES)
def test_commands_take_a_file_of_the_example(words, written, files, output_of):
    out = output_of(re.sub(r"\bA\b", files[0], re.sub(r"\bB\b", files[1], words)))
    assert not re.search(r"\bnan\b", out)
    if written:
        assert pathlib.Path(written).stat().st_size > 1000
    else:
        assert re.search(
            r"momentum\.nc +done +100 +6 .*--fa 2\.0 --n 7 --momentum 0\.8", out
        )


def test_commands_take_a_file_with_metrics_alone(output_of):
    run(steps=60, record="metrics", out="m.nc").close()
    for words in ("analysis.events m.nc --of force", "analysis.frame m.nc --out m.png"):
        output_of(words)
    assert "embedding" in output_of("analysis.formation m.nc", code=1)


def test_panels_that_a_system_registers(files, output_of):
    execute(ON_PANELS)
    with open_trajectory(files[0]) as trajectory:
        assert panel_names(trajectory)[:2] == ("motion", "embedding")
        arrows = build_scene(trajectory, 1).arrays(np.array([0, 40]))["heading"]
        x, v = (trajectory[name].values[1, 40] for name in ("embedding", "velocity"))
        assert_allclose(arrows[1], np.hstack([x, x + 5 * v]), atol=1e-12)
        assert np.isnan(arrows[0, :, 2:]).all()  # at rest
        assert panel_names(run(steps=3, record="metrics")) == (
            "gradient_norm",
            "update_norm",
        )
    output_of(f"analysis.frame {files[0]} --step 20 --panels motion --out a.png")
    assert imread("a.png").ndim == 3
    output_of(f"analysis.explore {' '.join(files)} --export a.html")
    assert "velocity of 6" in pathlib.Path("a.html").read_text()


def test_an_analysis_from_outside(files, output_of, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in (("reach", ON_REACH), ("reaching", ON_REACHING)):
        pathlib.Path(f"{name}.py").write_text(text)
    assert "picture     momentum-reach.png" in output_of(f"reaching {files[0]}")
    with (
        xr.open_dataset("momentum-reach.nc") as result,
        open_trajectory(files[0]) as trajectory,
    ):
        x = trajectory["embedding"].values[4, 60]
        expected = max(np.sqrt(((point - x.mean(0)) ** 2).sum()) for point in x)
        assert_allclose(result["reach"].sel(step=60)[4], expected)
    for name in ("reach", "reaching"):
        sys.modules.pop(name)


# --------------------------------------------------------------------- a recorded model


@pytest.mark.slow
def test_the_page_on_own_models_works_as_it_stands(output_of, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    training, loss, interrupted, cut, table = BLOCK.findall(OWN_MODEL)
    assert len([line for line in (training + loss).splitlines() if line.strip()]) <= 50
    pathlib.Path("mine.py").write_text(training)
    pathlib.Path("my_loss.py").write_text(loss)
    runpy.run_path("mine.py", run_name="__main__")
    commands = re.findall(r"^python -m (analysis\..*)$", OWN_MODEL, re.MULTILINE)
    assert len(commands) == 9
    for words in commands:
        assert not re.search(r"\bnan\b", output_of(words.replace('"', "")))
    written = [
        "mine.gif",
        "mine0-curvature.png",
        "mine.html",
        *(f"mine-{name}.png" for name in ON_ENSEMBLES),
    ]
    assert all(pathlib.Path(name).stat().st_size > 1000 for name in written)
    with xr.open_dataset("mine-audit.nc") as audit:
        assert np.isfinite(audit["r_squared"].sel(target="gradient")).all()
    sys.modules.pop("mine")
    names = {}
    exec(cut + table, names)
    assert open_trajectory("cut?.nc").sizes["run"] == 2
    output_of("sims.collect", "scalars.csv", "--out", "log.nc")
    loss = names["runs"][0]["loss"]
    assert_array_equal(open_trajectory("log.nc")["loss"], loss)
    check_restoring_continues_with_the_same_bits(interrupted, monkeypatch)


def check_restoring_continues_with_the_same_bits(code, monkeypatch):
    pathlib.Path("long.py").write_text(code)
    undisturbed = runpy.run_path("long.py")["model"]
    pathlib.Path("long.nc").unlink()
    step = recording.Recording.step

    def step_until_signal(self, **measured):
        if self.norms.updates == 100:
            signal.raise_signal(signal.SIGINT)
        step(self, **measured)

    with monkeypatch.context() as patch, pytest.raises(Interrupted, match="at step 96"):
        patch.setattr(recording.Recording, "step", step_until_signal)
        runpy.run_path("long.py")
    restored = runpy.run_path("long.py")["model"]
    for name, values in undisturbed.state_dict().items():
        assert torch.equal(values, restored.state_dict()[name])


# ------------------------------------------------------- a system of quite another kind


@pytest.mark.slow
@dataclasses.dataclass(frozen=True)
class WalkerSettings(NoiseSettings):
    """Random walks with epochs, a loss without accuracy or neither that nor points, and
    a layer of another name."""

    system: ClassVar[str] = "others"
    epoch_steps: ClassVar[int] = 10
    modulus: ClassVar[int] = 6
    points: bool = True


class Walkers(Noise):
    shape = (6, 3)

    def __init__(self, settings, device="auto"):
        super().__init__(settings, device)
        norms = {"gradient_norm": ("layer",), "update_norm": ("layer",)}
        shown = (
            {"embedding": ("token", "axis"), "loss": ("split",)}
            if settings.points
            else {}
        )
        self.variables = {"order": (), **norms, **shown}

    def coords(self):
        return {
            **super().coords(),
            "layer": np.array(["phase"]),
            "split": np.array(["train"]),
        }

    def observe(self, state):
        order = np.linalg.norm(state.x, axis=(1, 2))
        result = {
            **super().observe(state),
            "order": order,
            "loss": np.exp(-order)[:, None].astype("f4"),
        }
        return {name: result[name] for name in self.variables}


@pytest.mark.parametrize("points", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_commands_take_a_file_of_a_system_of_another_kind(points, output_of):
    register(WalkerSettings, Walkers)
    run(WalkerSettings(points=points), steps=120, every=2, out="a.nc").close()
    for words in (
        "analysis.events a.nc",
        "analysis.frame a.nc --out a.png",
        "analysis.explore a.nc --export a.html",
    ):
        output_of(words)
    output_of("sims.runs --folder .")
    assert (
        replay("a.nc", 1, 33, 36)["order"].sel(step=34)[0]
        == open_trajectory("a.nc")["order"].sel(step=34)[1]
    )
    for words in ("gradients a.nc", "compare a.nc --out c.nc", "formation a.nc"):
        told = output_of(f"analysis.{words}", code=int(not points))
        assert points or re.search(r"variables? .*embedding", told)
    if points:
        with pytest.raises(
            TrajectoryError, match="token: found 6, expected the numbers modulo 7"
        ):
            modular_embedding(open_trajectory("a.nc").assign_attrs(modulus=7))


# ----------------------------------------------------- systems that nobody has imported

OUTSIDER = """
from docs.momentum import MomentumSettings, MomentumSystem
from dynamics import register

class Settings(MomentumSettings):
    system = "outsider"

register(Settings, MomentumSystem)
"""


@pytest.fixture
def outsider(tmp_path, monkeypatch):
    """A file of a system that is not known, and whose module can be imported."""
    pathlib.Path("outsider.py").write_text(OUTSIDER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(SYSTEM_MODULES_VARIABLE, raising=False)
    with mock.patch.dict(sys.modules):
        simulate(
            importlib.import_module("outsider").Settings(n=5),
            runs=2,
            steps=12,
            out="a.nc",
        ).close()
        for item in (*TABLES, sys.modules):
            del item["outsider"]
        yield "a.nc"


def test_a_file_of_an_unknown_system_imports_nothing(outsider, output_of):
    known = "particles, modular, sparse, transformer, momentum"
    told = f"found 'outsider', known are {known} (others if TRAINING_DYNAMICS_SYSTEMS"
    assert told in output_of(f"analysis.events {outsider}", code=1)
    assert "outsider" not in sys.modules


def test_a_list_of_runs_says_once_what_is_not_known(outsider, output_of, monkeypatch):
    shutil.copy(outsider, "b.nc")
    run(ParticleSettings(n=5), steps=2, out="c.nc").close()
    out = output_of("sims.runs --folder .")
    for name in "ab":
        assert re.search(
            rf"{name}\.nc +unknown system +12 +2 +0 +\d\.\d +outsider\n", out
        )
    assert "unreadable" not in out
    assert out.count(SYSTEM_MODULES_VARIABLE) == 1
    assert out.count("\nunknown system: found 'outsider', known are particles") == 1
    monkeypatch.setenv(SYSTEM_MODULES_VARIABLE, "outsider")
    assert re.search(r"a\.nc +done +12 +2 .*--n 5", output_of("sims.runs --folder ."))


def test_modules_that_the_environment_lists_are_imported(
    outsider, output_of, monkeypatch
):
    monkeypatch.setenv(SYSTEM_MODULES_VARIABLE, " json , outsider,")
    output_of(f"analysis.frame {outsider} --out a.png")
    assert read_settings(open_trajectory(outsider)).system == "outsider"
    assert replay(outsider, 0, 3, 5).sizes["step"] == 3


NO_MODULES = [
    "outsidre",
    "outsider.settings",
    "outsider.py",
    "./outsider.py",
    ".outsider",
    "no.such",
]


@pytest.mark.parametrize("name", NO_MODULES)
def test_a_name_that_is_no_module_is_refused(outsider, name, output_of, monkeypatch):
    monkeypatch.setenv(SYSTEM_MODULES_VARIABLE, name)
    told = (
        f"TRAINING_DYNAMICS_SYSTEMS: found {name}, allowed is modules that can be"
        " imported from here"
    )
    assert told in output_of(f"analysis.events {outsider}", code=1)


def test_known_systems_import_nothing(monkeypatch):
    monkeypatch.setenv(SYSTEM_MODULES_VARIABLE, "nothing_of_that_name")
    run(ParticleSettings(n=5), steps=2, out="p.nc").close()
    with pytest.raises(TrajectoryError, match="system: found 'pendulum'"):
        read_settings(open_trajectory("p.nc").assign_attrs(system="pendulum"))


def test_from_the_shell(monkeypatch, capsys, typed):
    """Run the file itself, and then a command that knows nothing of it."""

    def program(run, name, words):
        monkeypatch.setattr("sys.argv", [name, *words.split()])
        try:
            run(name, run_name="__main__")
        except SystemExit as end:
            return end.code, *capsys.readouterr()
        return 0, *capsys.readouterr()

    def sweep_command(modules, words):
        monkeypatch.setenv(SYSTEM_MODULES_VARIABLE, modules)
        return typed("sims.sweep", *words.split())

    code, out, err = program(
        runpy.run_path, str(DOCS / "momentum.py"), "--n 5 --runs 3 --steps 20"
    )
    assert (code, err) == (0, "")
    assert "(written: 3 runs, 20 steps)" in out
    code, out, err = sweep_command(
        "docs.momentum", "momentum --momentum 0 0.5 --n 5 --runs 2 --steps 10"
    )
    assert code == 0, err
    assert re.search(r"0\.0 +2 .*\n +0\.5 +2 ", out)
    code, _, err = sweep_command("docs.momentun", "--help")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(
        "error: TRAINING_DYNAMICS_SYSTEMS: found docs.momentun, allowed is"
    )
    for item in TABLES:
        del item["momentum"]
    code, _, err = sweep_command("", "momentum --momentum 0")
    assert (code, err.count("\n")) == (2, 1)
    assert re.match(
        "error: .*: found momentum, allowed is one of"
        f" particles.*{SYSTEM_MODULES_VARIABLE}",
        err,
    )


@pytest.fixture
def example(monkeypatch, capsys):
    """What the example prints, run as a program."""

    def run(words):
        monkeypatch.setattr("sys.argv", ["momentum", *words.split()])
        command_line.system_command(MomentumSettings, "docs.momentum")
        return capsys.readouterr().out

    return run


def test_the_example_from_the_command_line(example, capsys):
    assert "written: 2 runs, 30 steps" in example(
        "--n 5 --runs 2 --steps 30 --out a.nc"
    )
    assert "written: 2 runs, 30 steps" in example(
        "--branch a.nc --step 10 --momentum 0.1 --out b.nc"
    )
    assert read_settings(open_trajectory("b.nc")) == MomentumSettings(n=5, momentum=0.1)
    printed = example("--n 5 --runs 2 --steps 30 --out a.nc --csv t.csv")
    assert "circles % [95%]" in printed
    assert pathlib.Path("a.png").exists()
    assert pd.read_csv("t.csv")["runs"].item() == 2
    with pytest.raises(SystemExit):
        example("--help")
    help_of = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "last step are always recorded. (default: 1)" in help_of
    assert (
        "Alignment constant f_a (CA eq 4)." in help_of
    )  # of the class from which its settings inherit
    assert "modular system" not in help_of


def test_diverged_runs_of_the_example_are_counted(monkeypatch, example):
    real = MomentumSystem.advance

    def advance(self, state, steps):
        """The second of three stands still from step 7 on."""
        after = real(self, state, steps)
        return dataclasses.replace(
            after,
            last_step=np.minimum(after.last_step, [99, 7, 99][: len(after.last_step)]),
        )

    monkeypatch.setattr(MomentumSystem, "advance", advance)
    for how in ("written", "found"):
        printed = example("--n 5 --runs 3 --steps 30 --out a.nc")
        assert (
            f"({how}: 3 runs, 30 steps)\ndiverged    1 runs: they keep their last"
            " finite state" in printed
        )
