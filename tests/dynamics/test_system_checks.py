"""Systems from outside that are half right: each mistake is told in a line, before anything is computed."""

import dataclasses
import re
import sys
from typing import ClassVar

import numpy as np
import pytest

from dynamics import settings as table
from dynamics import system as registry
from dynamics.branching import replay
from dynamics.preparation import run_path
from dynamics.randomness import random_stream
from dynamics.settings import SYSTEM_MODULES_VARIABLE, SettingsError, import_external_systems
from dynamics.simulation import simulate
from dynamics.system import System, register
from sims.command_line.default_command import system_command


@dataclasses.dataclass(frozen=True)
class NoiseSettings:
    """Independent walkers: x <- x + scale noise(seed, step)."""

    system: ClassVar[str] = "walkers"
    default_steps: ClassVar[int] = 40
    default_every: ClassVar[int] = 4
    epoch_steps: ClassVar[int] = 0
    modulus: ClassVar[int] = 3
    time_step: ClassVar[float] = 1.0
    scale: float = 0.1


@dataclasses.dataclass(frozen=True)
class NoiseState:
    step: int
    last_step: np.ndarray
    x: np.ndarray
    moved: np.ndarray
    seeds: np.ndarray


class Noise(System):
    def __init__(self, settings, device="auto"):
        self.settings = settings
        self.variables = {"embedding": ("token", "axis"), "gradient_norm": ("layer",), "update_norm": ("layer",)}

    def coords(self):
        return {"token": np.arange(3), "axis": np.arange(2), "layer": np.array(["embedding"])}

    def working_bytes(self, runs):
        return 100 * runs

    def noise(self, seeds, step):
        return np.stack([random_stream(int(seed), f"walkers/{step}").standard_normal((3, 2)) for seed in seeds])

    def initial(self, seeds):
        zeros = np.zeros(len(seeds))
        return NoiseState(0, zeros.astype(np.int64), self.noise(seeds, 0), zeros, np.asarray(seeds))

    def advance(self, state, steps):
        for _ in range(steps):
            move = self.settings.scale * self.noise(state.seeds, state.step + 1)
            norm = np.linalg.norm(move, axis=(1, 2))
            state = NoiseState(state.step + 1, state.last_step + 1, state.x + move, norm, state.seeds)
        return state

    def observe(self, state):
        norm = state.moved.astype(np.float32)[:, None]
        return {"embedding": state.x, "gradient_norm": norm, "update_norm": norm}

    def checkpoint(self, state):
        return vars(state)  # with an int for step

    def restore(self, arrays):
        return NoiseState(**{**arrays, "step": int(arrays["step"])})


@pytest.fixture(autouse=True)
def tables():
    """What is registered here is not known elsewhere."""
    before = [dict(each) for each in (table.SETTINGS_CLASSES, registry.SYSTEM_CLASSES)]
    register(NoiseSettings, Noise)
    yield
    for each, kept in zip((table.SETTINGS_CLASSES, registry.SYSTEM_CLASSES), before, strict=True):
        each.clear()
        each.update(kept)


def run(settings=None, runs=3, **amount):
    return simulate(settings or NoiseSettings(), runs=runs, **amount)


Alike = type("Alike", (), {"device": "cpu", "ensemble_width": 0, "numerics_version": 1, **vars(Noise)})
"""The same system, which inherits nothing."""


@pytest.mark.parametrize("kind", [Noise, Alike])
def test_a_system_with_noise_is_taken_and_goes_on_exactly(kind):
    register(NoiseSettings, kind)
    assert run_path(NoiseSettings(), 3, 0).name.startswith("walkers-")
    run(steps=13, every=1, out="a.nc").close()
    found, whole = run(steps=40, every=1, out="a.nc"), run(steps=40, every=1)
    np.testing.assert_array_equal(found["embedding"], whole["embedding"])
    np.testing.assert_array_equal(replay("a.nc", 1, 11, 20)["embedding"][0], whole["embedding"][1, 11:21])


# ------------------------------------------------------------------------------------- mistakes of a system


def without(method, *names):
    """A method whose result lacks some entries."""

    def changed(self, *words):
        return {name: value for name, value in getattr(Noise, method)(self, *words).items() if name not in names}

    return changed


def with_(method, **entries):
    """A method of whose result some entries are others, made of what they were."""

    def changed(self, *words):
        found = dict(getattr(Noise, method)(self, *words))
        return {**found, **{name: change(found.get(name)) for name, change in entries.items()}}

    return changed


def over(**dims):
    def begin(self, settings, device="auto"):
        Noise.__init__(self, settings, device)
        self.variables = {name: value for name, value in {**self.variables, **dims}.items() if value is not None}

    return begin


def drawing(self, state, steps):
    """Noise of a generator that the system keeps to itself."""
    if not hasattr(self, "generator"):
        self.generator = np.random.default_rng(0)
    after = Noise.advance(self, state, steps)
    return dataclasses.replace(after, x=after.x + self.generator.normal(size=after.x.shape))


def in_place(self, state, steps):
    state.x[:] += 1
    return Noise.advance(self, state, steps)


def advanced(**changes):
    def advance(self, state, steps):
        after = Noise.advance(self, state, steps)
        return dataclasses.replace(after, **{name: change(after) for name, change in changes.items()})

    return advance


def rounding(self, arrays):
    return Noise.restore(self, {**arrays, "x": arrays["x"].astype("f4").astype("f8")})


MISTAKES = [
    (
        {"checkpoint": without("checkpoint", "seeds")},
        r"restore: found TypeError: .*'seeds', allowed is the state, from",
    ),
    ({"checkpoint": without("checkpoint", "step")}, "checkpoint: found step: a NoneType, allowed is the step of the s"),
    (
        {"checkpoint": with_("checkpoint", seeds=lambda old: 5)},
        r"checkpoint: found seeds: a int .* \(2, ...\): run first",
    ),
    (
        {"checkpoint": with_("checkpoint", seed=lambda old: np.ones(2))},
        "checkpoint: found an array named seed, allowed is",
    ),
    ({"checkpoint": lambda self, state: state}, "checkpoint: found a NoiseState, allowed is a dict"),
    ({"restore": rounding}, "restore: found a different x, allowed is the state that was saved, exactly"),
    (
        {"restore": lambda self, arrays: NoiseState(**arrays)},
        r"restore: found a state whose step is array\(0\), allowed",
    ),
    ({"observe": without("observe", "gradient_norm")}, "observe: found no gradient_norm, allowed is all of variables"),
    (
        {"observe": with_("observe", gradient_norm=lambda old: old[:, 0])},
        r"observe: found gradient_norm: shape \(2,\), allowed is \(2, 1\): run, layer",
    ),
    (
        {"observe": with_("observe", embedding=np.ndarray.tolist)},
        r"observe: found embedding: a list, allowed is \(2, 3,",
    ),
    (
        {"observe": with_("observe", embedding=lambda old: old * 1j)},
        "observe: found embedding: complex128, allowed is fl",
    ),
    (
        {"observe": with_("observe", embedding=lambda old: old * np.nan)},
        "observe: found embedding of run 0 at step 0 is not finite",
    ),
    ({"coords": without("coords", "layer")}, r"coords: found no layer, allowed .* gradient_norm is over \('layer',\)"),
    ({"coords": without("coords", "token", "axis")}, "coords: found no token, allowed is one entry for each dimension"),
    ({"coords": with_("coords", token=lambda old: 3)}, r"coords: found token: 3, allowed is an array"),
    (
        {"__init__": over(gradient_norm=None)},
        r"variables: found no gradient_norm, allowed is gradient_norm, update_norm",
    ),
    (
        {"__init__": over(gradient_norm=())},
        r"variables: found gradient_norm over \(\), allowed is \('layer',\) after run",
    ),
    ({"__init__": over(speed="token")}, "variables: found speed: 'token', allowed is a tuple"),
    ({"__init__": over(time=())}, "variables: found a variable named 'time', allowed is names other than"),
    (
        {"__init__": lambda self, settings, device: None},
        ": found no settings, no variables, allowed is settings and var",
    ),
    ({"advance": drawing}, "advance: found a different x, allowed is the same result from the same state"),
    ({"advance": in_place}, "advance: found a different x, allowed is no change of the state"),
    ({"advance": advanced(step=lambda after: 0)}, "advance: found a state whose step is 0, allowed is the int 1"),
    (
        {"advance": advanced(last_step=lambda after: 1)},
        r"advance: found a state whose last_step is a int, allowed is int",
    ),
    (
        {"advance": advanced(last_step=lambda after: after.last_step + 1)},
        r"at step 1 whose last_step is \[2 2\], allowed",
    ),
    ({"working_bytes": lambda self, runs: None}, "working_bytes: found None, allowed is a number of bytes"),
]


@pytest.mark.parametrize(("changes", "told"), MISTAKES)
def test_a_mistake_is_told_before_step_0(changes, told, tmp_path):
    register(NoiseSettings, type("Half", (Noise,), changes))
    with pytest.raises(SettingsError, match=rf"^Half.*{told}") as error:
        run(out="a.nc")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_inherit_is_told_what_it_lacks():
    class Alone:
        def __init__(self, settings, device):
            self.settings, self.variables = settings, {}

    for begin in (lambda: run(steps=2), lambda: run_path(NoiseSettings(), 2, 0)):
        register(NoiseSettings, Alone)
        with pytest.raises(SettingsError, match=r"Alone: found no device, no ensemble_width, .* dynamics.System"):
            begin()
    register(NoiseSettings, type("Half", (System,), {"coords": Noise.coords}))
    with pytest.raises(SettingsError, match="Half: found no advance, no checkpoint, no initial, .*all methods"):
        run(steps=2)


def test_an_error_of_its_own_code_is_not_hidden():
    register(NoiseSettings, type("Half", (Noise,), {"observe": lambda self, state: {}["of my own"]}))
    with pytest.raises(KeyError, match="of my own"):
        run(steps=2)


# --------------------------------------------------------------------------------------- mistakes of settings


@pytest.mark.parametrize("name", ["modulus", "default_every", "default_steps", "time_step", "epoch_steps"])
def test_settings_that_lack_a_member_are_told(name, monkeypatch, capsys):
    monkeypatch.delattr(NoiseSettings, name)
    with pytest.raises(SettingsError, match=f"NoiseSettings: found no {name}, allowed is a ClassVar or a property"):
        run(steps=2, every=1)
    with pytest.raises(SystemExit) as end:
        system_command(NoiseSettings, "walkers")
    assert end.value.code == 2
    assert re.fullmatch(f"error: NoiseSettings: found no {name}, .*\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("modulus", "three"),
        ("default_every", 0),
        ("time_step", float("nan")),
        ("epoch_steps", 2.5),
        ("time_step", None),
    ],
)
def test_members_that_are_no_numbers_are_told(name, value, monkeypatch):
    monkeypatch.setattr(NoiseSettings, name, value)
    with pytest.raises(SettingsError, match=f"NoiseSettings.{name}: found {value!r}, allowed is a"):
        run(steps=2, every=1)


def test_fields_that_no_file_can_keep_are_told():
    kinds = [("names", set, frozenset("a")), ("rate", float, float("nan")), ("rate", float, "much")]
    for name, kind, value in kinds:
        fields = [(name, kind, dataclasses.field(default=value))]
        odd = dataclasses.make_dataclass("Odd", fields, bases=(NoiseSettings,), frozen=True)
        odd.system = "odd"
        register(odd, Noise)
        with pytest.raises(SettingsError, match="Odd: found fields that a file cannot keep"):
            run(odd(), steps=2)
    assert run(NoiseSettings(scale=1), steps=2).attrs["config_json"] == '{"scale": 1}'


def test_classes_that_are_no_settings_are_told(capsys):
    @dataclasses.dataclass
    class Soft:
        system: ClassVar[str] = "soft"

    @dataclasses.dataclass(frozen=True)
    class Bare(NoiseSettings):
        system: ClassVar[str] = "bare"
        rate: float = dataclasses.field(kw_only=True)

    for kind, told in (
        (Soft, "Soft: found a class, allowed is a frozen"),
        (Bare, "Bare.rate: found no default, allowed"),
    ):
        with pytest.raises(SystemExit):
            system_command(kind, "walkers")
        assert f"error: {told}" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(("name", "of"), [("particles", "dynamics.settings.ParticleSettings"), ("walkers", "Noise")])
def test_a_name_that_another_class_has_is_refused(name, of):
    kind = dataclasses.make_dataclass("Walkers", [], bases=(NoiseSettings,), frozen=True)
    kind.system = name
    with pytest.raises(SettingsError, match=rf"Walkers.system: found '{name}', allowed is another name: .*{of}"):
        register(kind, Noise)
    assert table.SETTINGS_CLASSES[name] is not kind


@pytest.mark.parametrize("name", ["", "a/b", "-a", None, 3])
def test_a_name_that_is_none_is_refused(name, monkeypatch):
    monkeypatch.setattr(NoiseSettings, "system", name)
    with pytest.raises(SettingsError, match="NoiseSettings.system: found .*, allowed is a name of letters"):
        register(NoiseSettings, Noise)


def test_the_same_class_may_come_again(tmp_path, monkeypatch):
    """Registered twice, defined anew as in a notebook, or run as a program and imported."""
    register(NoiseSettings, Noise)
    again = dataclasses.make_dataclass("NoiseSettings", [], bases=(NoiseSettings,), frozen=True)
    again.__module__ = NoiseSettings.__module__
    register(again, Noise)
    again.__module__ = "__main__"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", sys.modules[__name__].__file__, raising=False)
    register(again, Noise)


def test_a_module_that_fails_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text, kind in (("fails_so", "1 / 0", ZeroDivisionError), ("fails_too", "import no_such", ImportError)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setenv(SYSTEM_MODULES_VARIABLE, name)
        with pytest.raises(kind) as error:
            import_external_systems()
        assert error.value.__notes__ == [f"({SYSTEM_MODULES_VARIABLE} lists {name}, which could not be imported)"]
