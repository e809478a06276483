"""The law of a system from outside is the one that its settings say, or none: functions
that need a law serve it or refuse the settings in one line."""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import analysis
import dynamics
from analysis import forces, panels, structures
from analysis.command_line.command_list import ANALYSIS_GROUPS
from analysis.committors.growth_of_differences import linearized_exponents
from analysis.linearization.force_jacobian import force_and_jacobian, force_spectra
from analysis.progress_measures import moment_frames
from dynamics import (
    ModularSettings,
    ParticleSettings,
    TrajectoryError,
    register,
    simulate,
)
from dynamics.forces import Force, ca_forces
from dynamics.particles import ParticleSystem, has_known_law, known_law
from dynamics.settings import SettingsError
from tests.dynamics.test_external_systems import Noise

OWN_LAW = (
    *ca_forces("1", "1/r**3", "c > 0"),
    Force("core", "like", "difference", "exp(-3*r)", constant=0.5),
)
POINTS = np.random.default_rng(1).standard_normal((7, 2))


@dataclass(frozen=True)
class CubeSettings(ParticleSettings):
    """A system with forces of its own, of which the settings say nothing."""

    system: ClassVar[str] = "cube"
    scale: ClassVar[float] = 0.1


@dataclass(frozen=True)
class SpokenSettings(ParticleSettings):
    """A system whose settings say the law."""

    system: ClassVar[str] = "spoken"
    scale: ClassVar[float] = 0.1

    @property
    def forces(self):
        return OWN_LAW


@dataclass(frozen=True)
class RenamedSettings(ParticleSettings):
    """`ParticleSystem` under another name."""

    system: ClassVar[str] = "renamed"


class Walk(Noise):
    """A random walk, which no force moves."""

    shape = (7, 2)


@pytest.fixture(autouse=True)
def registered(restored_registries):
    register(CubeSettings, Walk)
    register(SpokenSettings, Walk)
    register(RenamedSettings, ParticleSystem)


@pytest.fixture(scope="module")
def network():
    settings = ModularSettings(n=5, hidden=8)
    return simulate(settings, runs=3, steps=16, every=1, progress=False)


def values(result):
    """The numbers of a result as one array."""
    if hasattr(result, "data_vars"):
        found = [item.values for item in result.data_vars.values()]
        numbers = [item.ravel() for item in found if item.dtype.kind == "f"]
        return np.concatenate(numbers)
    return np.concatenate([np.ravel(item) for item in result])


NEED_A_LAW = {
    "audit_forces": lambda law, network: values(
        forces.audit_forces(network, law, 3, renamings=2)
    ),
    "audit_moments": lambda law, network: values(
        forces.audit_moments(network, moment_frames(network), law)
    ),
    "fit_pair_law": lambda law, network: values(forces.fit_pair_law(network, law, 8)),
    "force_and_jacobian": lambda law, network: values(force_and_jacobian(POINTS, law)),
}
"""Functions that need the forces of settings."""
NEED_THE_STEP = {
    "simulate_in_any_dimension": lambda law, network: forces.simulate_in_any_dimension(
        POINTS, law, 3
    ),
}
"""Functions that move points as `ParticleSystem` does."""
OTHERS = {
    # these simulate the system of the settings
    *("Ensemble", "create_system", "run_path", "simulate", "sweep", "SweepDesign"),
    *("sweep_design", "script_design", "simulate_particles_from"),
    # these are refused by their system, see below
    *("plan_scaling", "table_ensembles", "table_rows"),
    # these are the law, or take settings of networks or a class
    *("ParticleSystem", "force_fields", "register", "register_condition"),
    *("Audit", "PairLaw", "ParticleSettings"),
    *("has_known_law", "known_law", "moves_as_particles", "check_moves_as_particles"),
}
"""Functions that take settings of particles or of any system and assume no law."""


def public_functions():
    """Names of public functions and classes that take settings of particles or of any
    system, or a law."""
    for root in (dynamics, analysis):
        modules = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
        names = [root.__name__, *(item.name for item in modules if item.ispkg)]
        for package in map(importlib.import_module, names):
            for name in getattr(package, "__all__", ()):
                value = getattr(package, name)
                if not (inspect.isfunction(value) or inspect.isclass(value)):
                    continue
                try:
                    parameters = inspect.signature(value).parameters
                except ValueError:
                    continue
                for key, parameter in parameters.items():
                    kind = str(parameter.annotation)
                    if (
                        "Particle" in kind
                        or key == "law"
                        or (
                            (key == "settings" and kind in ("Any", "Settings"))
                            or "settings.Settings" in kind
                        )
                    ):
                        yield name


def test_every_public_function_that_takes_a_law_is_in_a_list_of_this_file():
    known = {*NEED_A_LAW, *NEED_THE_STEP, *OTHERS}
    assert set(public_functions()) <= known


@pytest.mark.parametrize("name", [*NEED_A_LAW, *NEED_THE_STEP])
def test_settings_that_do_not_say_their_law_are_refused_in_a_line(name, network):
    function = {**NEED_A_LAW, **NEED_THE_STEP}[name]
    with pytest.raises(SettingsError, match="CubeSettings of the system cube") as error:
        function(CubeSettings(n=7), network)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", NEED_A_LAW)
def test_a_law_that_settings_say_is_the_one_that_is_used(name, network):
    function = NEED_A_LAW[name]
    found = function(SpokenSettings(n=7, fa=0.5), network)
    expected = function(ParticleSettings(n=7, fa=0.5, law=OWN_LAW), network)
    assert_array_equal(found, expected)
    of_ca = function(ParticleSettings(n=7, fa=0.5), network)
    assert found.shape != of_ca.shape or not np.array_equal(found, of_ca)


@pytest.mark.parametrize("name", NEED_THE_STEP)
def test_points_move_only_as_particles_do(name, network):
    function = NEED_THE_STEP[name]
    with pytest.raises(SettingsError, match="SpokenSettings of the system spoken"):
        function(SpokenSettings(n=7), network)
    expected = function(ParticleSettings(n=7), network)
    assert_array_equal(function(RenamedSettings(n=7), network), expected)


def test_the_law_of_own_settings_as_settings_of_particles():
    assert known_law(SpokenSettings(n=9, fa=3.0)) == ParticleSettings(
        n=9, fa=3.0, law=OWN_LAW
    )
    assert known_law(RenamedSettings(repulsion="1/r**2")) == ParticleSettings(
        repulsion="1/r**2"
    )
    assert not has_known_law(ModularSettings())


def test_a_subclass_without_a_system_of_its_own_cannot_change_the_law():
    @dataclass(frozen=True)
    class Silent(ParticleSettings):
        @property
        def forces(self):
            return OWN_LAW

    with pytest.raises(SettingsError, match="Silent.system: .* Silent defines forces"):
        simulate(Silent(n=5), runs=1, steps=2)


@pytest.fixture
def no_law(monkeypatch):
    """From here on nothing computes a force of particles."""

    def refuse(*args, **options):
        raise AssertionError("a law of particles is used")

    monkeypatch.setattr(
        "dynamics.particles.particle_system.ParticleSystem.__init__", refuse
    )
    monkeypatch.setattr(
        "analysis.linearization.force_jacobian._PairLaw.__init__", refuse
    )


@pytest.fixture
def walk():
    return simulate(
        CubeSettings(n=7), runs=3, steps=40, every=1, progress=False, out="cube.nc"
    )


REFUSED = [
    lambda walk: force_spectra(walk, [0]),
    lambda walk: analysis.linearization.linearize_trajectory(walk, [0]),
    lambda walk: analysis.linearization.state_modes(walk),
    lambda walk: analysis.linearization.operator(
        walk.isel(run=[0], step=[0]), "force_jacobian"
    ),
    lambda walk: linearized_exponents(walk, 0, 4, 2),
    lambda walk: structures.ca_table_row(walk),
    lambda walk: structures.plan_scaling(CubeSettings(n=7), [7], [1.0]),
    lambda walk: next(structures.table_ensembles(CubeSettings(n=7), 2, 0, None, None)),
    lambda walk: forces.audit_forces(walk),
    lambda walk: forces.fit_pair_law(walk),
]


@pytest.mark.parametrize("call", REFUSED)
def test_equations_of_particles_are_not_those_of_another_system(call, walk, no_law):
    with pytest.raises((SettingsError, TrajectoryError)) as error:
        call(walk)
    assert "\n" not in str(error.value)


LEFT_OUT = ("film", "paper", "verify")
"""Commands that this test does not run: `film` draws the panels that `frame` draws, and
the other commands simulate."""
OPTIONS = {
    "compare": "cube.nc",
    "fate": "--copies 2 --frames 2",
    "explore": "--export page.html",
}
COMMANDS = [
    f"{name} {OPTIONS.get(name, '')}"
    for group in ANALYSIS_GROUPS.values()
    for name in group
    if name not in LEFT_OUT
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_computes_forces_of_particles_for_another_system(
    command, walk, no_law, typed
):
    name, *options = command.split()
    code, _, err = typed(f"analysis.{name}", "cube.nc", *options)
    assert code == 0 or (code in (1, 2) and err.count("\n") == 1), err


def test_panels_of_a_system_from_outside(walk, no_law):
    names = panels.panel_names(walk)
    assert "pair_sums" in names
    assert "force" not in names
    scene = panels.build_scene(walk, 0, panels=["pair_sums"])
    assert scene.arrays([0])["pair_sums"].shape == (1, 28, 2)


def test_panels_of_the_law_that_settings_say():
    trajectory = simulate(SpokenSettings(n=7), runs=2, steps=8, progress=False)
    names = panels.panel_names(trajectory)
    assert {"force", *(force.name for force in OWN_LAW)} <= set(names)
    shown = ["force", *(force.name for force in OWN_LAW)]
    scene = panels.build_scene(trajectory, 1, panels=shown)
    x = trajectory["embedding"].transpose("run", "step", "token", "axis").values[1, [3]]
    system = ParticleSystem(ParticleSettings(n=7, law=OWN_LAW))
    arrows = scene.arrays([3])["force"][0].astype(float)
    drawn = arrows[:, 2:] - arrows[:, :2]
    force = system.force(x)[0][0]
    ratio = np.linalg.norm(drawn) / np.linalg.norm(force)
    np.testing.assert_allclose(drawn, ratio * force, atol=1e-5 * np.abs(drawn).max())


def test_settings_of_another_number_of_points_have_no_force(no_law):
    trajectory = simulate(SpokenSettings(n=9), runs=2, steps=4, progress=False)
    assert "force" not in panels.panel_names(trajectory)
