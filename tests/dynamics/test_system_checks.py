"""Systems from outside that are half right: each mistake is told in a line, before
anything is computed."""

import dataclasses
import re
import sys
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynamics import System, random_stream, register, replay, run_path, simulate
from dynamics import settings as table
from dynamics.settings import (
    SYSTEM_MODULES_VARIABLE,
    SettingsError,
    import_external_systems,
)
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
    shape = (3, 2)  # token, axis

    def __init__(self, settings, device="auto"):
        self.settings = settings
        self.variables = {
            "embedding": ("token", "axis"),
            "gradient_norm": ("layer",),
            "update_norm": ("layer",),
        }

    def coords(self):
        return {
            "token": np.arange(self.shape[0]),
            "axis": np.arange(self.shape[1]),
            "layer": np.array(["embedding"]),
        }

    def working_bytes(self, runs):
        return 100 * runs

    def noise(self, seeds, step):
        return np.stack(
            [
                random_stream(int(seed), f"walkers/{step}").standard_normal(self.shape)
                for seed in seeds
            ]
        )

    def initial(self, seeds):
        zeros = np.zeros(len(seeds))
        return NoiseState(
            0, zeros.astype(np.int64), self.noise(seeds, 0), zeros, np.asarray(seeds)
        )

    def advance(self, state, steps):
        for _ in range(steps):
            move = self.settings.scale * self.noise(state.seeds, state.step + 1)
            norm = np.linalg.norm(move, axis=(1, 2))
            state = NoiseState(
                state.step + 1, state.last_step + 1, state.x + move, norm, state.seeds
            )
        return state

    def observe(self, state):
        norm = state.moved.astype(np.float32)[:, None]
        return {"embedding": state.x, "gradient_norm": norm, "update_norm": norm}

    def checkpoint(self, state):
        return vars(state)  # with an int for step

    def restore(self, arrays):
        return NoiseState(**{**arrays, "step": int(arrays["step"])})


@pytest.fixture(autouse=True)
def registered(restored_registries):
    register(NoiseSettings, Noise)


def run(settings=None, runs=3, **amount):
    return simulate(settings or NoiseSettings(), runs=runs, **amount)


Alike = type(
    "Alike",
    (),
    {"device": "cpu", "ensemble_width": 0, "numerics_version": 1, **vars(Noise)},
)
"""The same system, which inherits nothing."""


@pytest.mark.parametrize("kind", [Noise, Alike])
def test_a_system_with_noise_is_extended_and_replayed_exactly(kind):
    register(NoiseSettings, kind)
    assert run_path(NoiseSettings(), 3, 0).name.startswith("walkers-")
    run(steps=13, every=1, out="a.nc").close()
    result, whole = (
        run(steps=40, every=1, out=out)["embedding"] for out in ("a.nc", None)
    )
    assert_array_equal(result, whole)
    assert_array_equal(replay("a.nc", 1, 11, 20)["embedding"][0], whole[1, 11:21])


# ----------------------------------------------------------------- mistakes of a system


def drop(*names):
    """A change of a dict: some entries are missing."""
    return lambda found: {
        name: value for name, value in found.items() if name not in names
    }


def put(name, change):
    """A change of a dict, or of a state: one entry becomes what `change` makes of
    it."""

    def changed(result):
        if isinstance(result, NoiseState):
            return NoiseState(**{**vars(result), name: change(getattr(result, name))})
        return {**result, name: change(result.get(name))}

    return changed


def drawing(self, state, steps):
    """Noise of a generator that the system keeps to itself."""
    self.generator = getattr(self, "generator", np.random.default_rng(0))
    after = Noise.advance(self, state, steps)
    return dataclasses.replace(
        after, x=after.x + self.generator.normal(size=after.x.shape)
    )


def in_place(self, state, steps):
    state.x[:] += 1
    return Noise.advance(self, state, steps)


def rounding(self, arrays):
    return Noise.restore(self, {**arrays, "x": arrays["x"].astype("f4").astype("f8")})


def variables(**dims):
    """An __init__ with other variables; None leaves one out."""

    def begin(self, settings, device="auto"):
        Noise.__init__(self, settings, device)
        self.variables = {
            name: value
            for name, value in {**self.variables, **dims}.items()
            if value is not None
        }

    return begin


CHANGED_RESULTS = [  # method, what becomes of its result, the end of the error
    (
        "checkpoint",
        drop("step"),
        "found step: a NoneType, allowed is the step of the state",
    ),
    (
        "checkpoint",
        put("seeds", lambda old: 5),
        r"found seeds: a int .* \(2, ...\): run first",
    ),
    (
        "checkpoint",
        put("seed", lambda old: np.ones(2)),
        "found an array named seed, allowed is",
    ),
    ("checkpoint", list, "found a list, allowed is a dict"),
    (
        "observe",
        drop("gradient_norm"),
        "found no gradient_norm, allowed is all of variables",
    ),
    (
        "observe",
        put("gradient_norm", lambda old: old[:, 0]),
        r".*shape \(2,\), allowed is \(2, 1\): run, layer",
    ),
    (
        "observe",
        put("embedding", np.ndarray.tolist),
        r"found embedding: a list, allowed is \(2, 3, 2\)",
    ),
    (
        "observe",
        put("embedding", lambda old: old * 1j),
        "found embedding: complex128, allowed is float",
    ),
    (
        "observe",
        put("embedding", lambda old: old * np.nan),
        "found embedding of run 0 at step 0 is not finite",
    ),
    (
        "coords",
        drop("layer"),
        r"found no layer, allowed .* gradient_norm is over \('layer',\)",
    ),
    (
        "coords",
        drop("token", "axis"),
        "found no token, allowed is one entry for each dimension",
    ),
    ("coords", put("token", lambda old: 3), "found token: 3, allowed is an array"),
    (
        "advance",
        put("step", lambda old: 0),
        "found a state whose step is 0, allowed is the int 1",
    ),
    (
        "advance",
        put("last_step", lambda old: 1),
        "found a state whose last_step is a int, allowed is integers",
    ),
    (
        "advance",
        put("last_step", lambda old: old + 1),
        r".*at step 1 whose last_step is \[2 2\], allowed",
    ),
    ("working_bytes", lambda old: None, "found None, allowed is a number of bytes"),
]

NORMS, LAYER = "gradient_norm, update_n", r"\('layer',\)"
CHANGED_METHODS = [  # method, what replaces it, the end of the error
    (
        "restore",
        rounding,
        "restore: found a different x, allowed is the state that was saved, exactly",
    ),
    (
        "restore",
        lambda self, arrays: NoiseState(**arrays),
        r"restore: found a state whose step is array\(0\), allowed",
    ),
    (
        "__init__",
        variables(gradient_norm=None),
        f"variables: found no gradient_norm, allowed is {NORMS}",
    ),
    (
        "__init__",
        variables(gradient_norm=()),
        rf"variables: found gradient_norm over \(\), allowed is {LAYER} after",
    ),
    (
        "__init__",
        variables(speed="token"),
        "variables: found speed: 'token', allowed is a tuple",
    ),
    (
        "__init__",
        variables(time=()),
        "variables: found a variable named 'time', allowed is names other than",
    ),
    (
        "__init__",
        lambda self, settings, device: None,
        ": found no settings, no variables, allowed is settings and var",
    ),
    (
        "advance",
        drawing,
        "advance: found a different x, allowed is the same result from the same state",
    ),
    (
        "advance",
        in_place,
        "advance: found a different x, allowed is no change of the state",
    ),
]


def with_result(method, change):
    return lambda self, *words: change(getattr(Noise, method)(self, *words))


NO_SEEDS = with_result("checkpoint", drop("seeds"))
MISTAKES = [
    *(
        (name, with_result(name, change), f"{name}: {end}")
        for name, change, end in CHANGED_RESULTS
    ),
    *(
        *CHANGED_METHODS,
        (
            "checkpoint",
            NO_SEEDS,
            "restore: found TypeError: .*'seeds', allowed is the state",
        ),
    ),
]


@pytest.mark.parametrize(("name", "method", "end"), MISTAKES)
def test_a_mistake_is_an_error_before_step_0(name, method, end, tmp_path):
    register(NoiseSettings, type("Half", (Noise,), {name: method}))
    with pytest.raises(SettingsError, match=rf"^Half.*{end}") as error:
        run(out="a.nc")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_class_without_the_methods_of_a_system_is_refused():
    class Alone:
        def __init__(self, settings, device):
            self.settings, self.variables = settings, {}

    register(NoiseSettings, Alone)
    for begin in (run, lambda: run_path(NoiseSettings(), 2, 0)):
        with pytest.raises(
            SettingsError,
            match=r"Alone: found no device, no ensemble_width, .* dynamics.System",
        ):
            begin()
    register(NoiseSettings, type("Half", (System,), {"coords": Noise.coords}))
    with pytest.raises(
        SettingsError,
        match="Half: found no advance, no checkpoint, no initial, .*all methods",
    ):
        run()


def test_an_error_of_its_own_code_is_not_hidden():
    register(
        NoiseSettings,
        type("Half", (Noise,), {"observe": lambda self, state: {}["of my own"]}),
    )
    with pytest.raises(KeyError, match="of my own"):
        run(steps=2)


# ----------------------------------------------------------------- mistakes of settings


@pytest.mark.parametrize(
    "name", ["modulus", "default_every", "default_steps", "time_step", "epoch_steps"]
)
def test_settings_that_lack_a_member_are_refused(name, monkeypatch, capsys):
    monkeypatch.delattr(NoiseSettings, name)
    with pytest.raises(
        SettingsError,
        match=f"NoiseSettings: found no {name}, allowed is a ClassVar or a property",
    ):
        run(steps=2, every=1)
    with pytest.raises(SystemExit) as end:
        system_command(NoiseSettings, "walkers")
    assert end.value.code == 2
    assert re.fullmatch(
        f"error: NoiseSettings: found no {name}, .*\n", capsys.readouterr().err
    )


ODD = [
    ("modulus", "three"),
    ("default_every", 0),
    ("epoch_steps", 2.5),
    ("time_step", np.nan),
    ("time_step", None),
]


@pytest.mark.parametrize(("name", "value"), ODD)
def test_settings_members_that_are_no_numbers_are_refused(name, value, monkeypatch):
    monkeypatch.setattr(NoiseSettings, name, value)
    with pytest.raises(
        SettingsError, match=f"NoiseSettings.{name}: found {value!r}, allowed is a"
    ):
        run(steps=2, every=1)


def test_fields_that_cannot_be_stored_are_refused():
    for name, kind, value in (
        ("names", set, frozenset("a")),
        ("rate", float, np.nan),
        ("rate", float, "much"),
    ):
        fields = [(name, kind, dataclasses.field(default=value))]
        odd = dataclasses.make_dataclass(
            "Odd", fields, bases=(NoiseSettings,), frozen=True
        )
        odd.system = "odd"
        register(odd, Noise)
        with pytest.raises(
            SettingsError, match="Odd: found fields that cannot be stored in a file"
        ):
            run(odd(), steps=2)
    assert run(NoiseSettings(scale=1), steps=2).attrs["config_json"] == '{"scale": 1}'


def test_classes_that_are_no_settings_are_refused(capsys):
    soft = dataclasses.make_dataclass("Soft", [])
    needed = [("rate", float, dataclasses.field(kw_only=True))]
    bare = dataclasses.make_dataclass(
        "Bare", needed, bases=(NoiseSettings,), frozen=True
    )
    soft.system, bare.system = "soft", "bare"
    errors = {
        soft: "Soft: found a class, allowed is a frozen",
        bare: "Bare.rate: found no default, allowed",
    }
    for kind, told in errors.items():
        with pytest.raises(SystemExit):
            system_command(kind, "walkers")
        assert f"error: {told}" in capsys.readouterr().err


# -------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "of"),
    [("particles", "dynamics.settings.ParticleSettings"), ("walkers", "Noise")],
)
def test_a_name_that_another_class_has_is_refused(name, of):
    kind = dataclasses.make_dataclass(
        "Walkers", [], bases=(NoiseSettings,), frozen=True
    )
    kind.system = name
    with pytest.raises(
        SettingsError,
        match=rf"Walkers.system: found '{name}', allowed is another name: .*{of}",
    ):
        register(kind, Noise)
    assert table.SETTINGS_CLASSES[name] is not kind


@pytest.mark.parametrize("name", ["", "a/b", "-a", None, 3])
def test_an_invalid_name_is_refused(name, monkeypatch):
    monkeypatch.setattr(NoiseSettings, "system", name)
    with pytest.raises(
        SettingsError,
        match="NoiseSettings.system: found .*, allowed is a name of letters",
    ):
        register(NoiseSettings, Noise)


def test_the_same_class_may_be_registered_again(monkeypatch):
    """Registered twice, defined anew as in a notebook, or run as a program and
    imported."""
    register(NoiseSettings, Noise)
    again = dataclasses.make_dataclass(
        "NoiseSettings", [], bases=(NoiseSettings,), frozen=True
    )
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    for name in (NoiseSettings.__module__, "__main__"):
        again.__module__ = name
        register(again, Noise)


def test_a_module_that_fails_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text, kind in (
        ("fails_so", "1 / 0", ZeroDivisionError),
        ("fails_too", "import no_such", ImportError),
    ):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setenv(SYSTEM_MODULES_VARIABLE, name)
        with pytest.raises(kind) as error:
            import_external_systems()
        assert error.value.__notes__ == [
            f"({SYSTEM_MODULES_VARIABLE} lists {name}, which could not be imported)"
        ]
