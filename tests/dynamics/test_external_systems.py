"""Systems from outside that are half right: `check_system` tells their authors each
mistake, and a run refuses them in a line before anything is computed."""

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
from dynamics.testing import check_system
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


def with_result(method, change):
    return lambda self, *words: change(getattr(Noise, method)(self, *words))


RESULTS = [  # method, what becomes of its result, the end of the error
    ("checkpoint", drop("step"), "the step is among the arrays"),
    ("checkpoint", put("seeds", lambda old: 5), r"seeds is of numbers \(run, ...\)"),
    (
        "checkpoint",
        put("seed", lambda old: np.ones(2)),
        "seed is a name that the format",
    ),
    ("checkpoint", list, "a dict, name -> array"),
    ("observe", drop("gradient_norm"), "gradient_norm, one of variables, is in"),
    (
        "observe",
        put("gradient_norm", lambda old: old[:, 0]),
        r"gradient_norm is an array \(2, 1\): run, \('layer',\)",
    ),
    ("observe", put("embedding", np.ndarray.tolist), "embedding is an array"),
    ("observe", put("embedding", lambda old: old * 1j), "embedding is of float32 or"),
    ("coords", drop("layer"), "one entry for each of gradient_norm"),
    ("coords", put("token", lambda old: 3), "token is an array"),
    ("advance", put("step", lambda old: 0), "the step of the state is the int 1"),
    ("advance", put("last_step", lambda old: 1), "last_step of the state is integers"),
    ("advance", put("last_step", lambda old: old + 1), "last_step .* from 0 to 1"),
]
METHODS = [  # method, what replaces it, the beginning of the error
    ("restore", rounding, "restore: the state is the saved one, exactly"),
    (
        "restore",
        lambda self, arrays: NoiseState(**arrays),
        "restore: the step of the state is the int 0",
    ),
    ("__init__", variables(gradient_norm=None), "variables: gradient_norm over"),
    ("__init__", variables(gradient_norm=()), r"variables: gradient_norm is over"),
    ("__init__", variables(speed="token"), "variables: speed has a tuple"),
    ("__init__", variables(time=()), "variables: time is a name of the format"),
    ("advance", drawing, "advance: the same state gives the same result"),
    ("advance", in_place, "advance: the state that is given to it does not change"),
    (
        "observe",
        with_result("observe", put("embedding", lambda old: old * np.nan)),
        "initial: embedding is finite at step 0",
    ),
    *(
        (name, with_result(name, change), f"{name}: {end}")
        for name, change, end in RESULTS
    ),
]


def test_a_system_without_mistakes_passes():
    check_system(NoiseSettings())


@pytest.mark.parametrize(("name", "method", "error"), METHODS)
def test_authors_are_told_what_a_system_does_wrong(name, method, error):
    register(NoiseSettings, type("Half", (Noise,), {name: method}))
    with pytest.raises(AssertionError, match=error):
        check_system(NoiseSettings())


BEFORE_A_RUN = [
    (
        "observe",
        drop("gradient_norm"),
        r"Half.observe: found gradient_norm of shape \(\)",
    ),
    ("coords", drop("layer"), "Half.coords: found no layer, allowed"),
    (
        "observe",
        put("embedding", lambda old: old * np.nan),
        "Half.initial: found embedding of run 0 .* is not finite",
    ),
]


@pytest.mark.parametrize(
    ("name", "method", "error"),
    [
        *((name, with_result(name, change), end) for name, change, end in BEFORE_A_RUN),
        ("restore", rounding, "Half: found a step after which x differs if the state"),
        ("advance", drawing, "Half: found a step after which x differs"),
    ],
)
def test_a_mistake_is_a_line_before_anything_is_written(name, method, error, tmp_path):
    register(NoiseSettings, type("Half", (Noise,), {name: method}))
    with pytest.raises(SettingsError, match=f"^{error}") as raised:
        run(out="a.nc")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_class_without_the_methods_of_a_system_is_refused():
    class Alone:
        def __init__(self, settings, device):
            self.settings = settings
            self.variables = {}

    register(NoiseSettings, Alone)
    for begin in (run, lambda: run_path(NoiseSettings(), 2, 0)):
        with pytest.raises(
            SettingsError, match="Alone: found no device, no ensemble_w"
        ):
            begin()
    register(NoiseSettings, type("Half", (System,), {"coords": Noise.coords}))
    with pytest.raises(SettingsError, match="Half: found no advance, no checkpoint"):
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


def test_a_system_without_numbers_has_no_table(monkeypatch, capsys):
    for words, code in (([], 0), (["--csv", "t.csv"], 2)):
        arguments = ["--runs", "2", "--steps", "3", "--out", "a.nc", *words]
        monkeypatch.setattr("sys.argv", ["walkers", *arguments])
        try:
            system_command(NoiseSettings, "walkers")
        except SystemExit as end:
            assert end.code == code
        out, err = capsys.readouterr()
        assert "picture" not in out
        assert ("no table: dimension token: found 3 tokens" in err) == bool(words)


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
