"""An ensemble as a value: its identity and its file, without system and torch."""

import subprocess
import sys

import pytest

from dynamics import Ensemble, ParticleSettings, SettingsError, run_path, simulate
from dynamics.system import cuda_is_available

NAMING = """
import sys
from dynamics import Ensemble, ModularSettings, SparseSettings, TransformerSettings
for settings in (ModularSettings(), SparseSettings(), TransformerSettings()):
    print(Ensemble(settings).path.name)
assert "torch" not in sys.modules, "torch was imported"
assert "dynamics.training.training_systems" not in sys.modules, "a system was imported"
"""


@pytest.mark.skipif(cuda_is_available(), reason="torch has to find the device")
def test_the_file_of_an_ensemble_is_named_without_torch():
    done = subprocess.run(
        [sys.executable, "-c", NAMING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "modular-ff218fc05954.nc"


def test_an_ensemble_simulates_what_the_function_simulates():
    ensemble = Ensemble(ParticleSettings(n=5, fa=2.0), runs=3, seed=4, steps=6, every=2)
    with simulate(ParticleSettings(n=5, fa=2.0), 3, 4, 6, 2) as expected:
        assert ensemble.simulate().equals(expected)
    assert {name: expected.attrs[name] for name in ensemble.identity} == (
        ensemble.identity
    )
    assert ensemble.path == run_path(ensemble.settings, 3, 4, every=2)
    assert ensemble.resolved().device == "cpu"
    assert ensemble.resolved().path == ensemble.path
    words = "particles, N = 5, f_a = 2: 3 runs from seed 4, 6 steps"
    assert ensemble.describe() == words
    assert eval(ensemble.code()).equals(expected)


@pytest.mark.parametrize(
    "options",
    [{"runs": 0}, {"seed": -1}, {"steps": 1.5}, {"every": 0}, {"record": "some"}],
)
def test_an_argument_of_an_ensemble_that_is_not_valid_is_refused(options):
    with pytest.raises(SettingsError, match=f"{next(iter(options))}: found"):
        Ensemble(ParticleSettings(), **options)
