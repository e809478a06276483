"""Estimates of the memory on a CUDA device, against peaks that torch reported on an
NVIDIA H100 (80 GB) in the first updates and a recorded frame."""

import pytest
import torch

from dynamics import ModularSettings, SparseSettings, TransformerSettings
from dynamics.ensemble import check_resources
from dynamics.settings import TRANSFORMER_PRESETS, SettingsError
from dynamics.system import system_class
from dynamics.training import training_systems
from dynamics.training.cuda_memory import WORKSPACE
from dynamics.trajectory.description import RecordingSchedule

WIDE = ModularSettings(n=59, hidden=1000)
CONSTANT = TransformerSettings(attention_rate=0.0)
PEAKS = [
    (ModularSettings(), 64, 139_825_152),
    (ModularSettings(), 1_000, 155_040_768),
    (ModularSettings(), 10_000, 941_871_616),
    (WIDE, 64, 1_578_238_976),
    (WIDE, 500, 11_819_308_032),
    (SparseSettings(), 64, 147_183_104),
    (SparseSettings(), 400, 564_993_024),
    (SparseSettings(), 1_600, 1_234_664_448),
    (SparseSettings(hidden=256, dim=8), 64, 465_944_064),
    (TransformerSettings(), 1, 119_063_040),
    (TransformerSettings(), 8, 425_389_056),
    (TransformerSettings(), 32, 1_477_340_160),
    (CONSTANT, 8, 352_584_192),
    (CONSTANT, 32, 1_189_514_752),
    (TRANSFORMER_PRESETS["nanda"], 1, 259_133_952),
    (TRANSFORMER_PRESETS["nanda"], 8, 618_310_656),
    (TransformerSettings(layers=2), 1, 157_121_024),
    (TransformerSettings(layers=2), 8, 729_801_728),
    (TransformerSettings(batch=512), 8, 186_946_560),
]


@pytest.fixture
def on_cuda(monkeypatch):
    """A function that returns the system of settings as on a CUDA device of 16 GiB."""

    def create(settings):
        return system_class(settings.system)(settings, "cuda")

    monkeypatch.setattr(training_systems, "resolve_device", lambda device, kind: device)
    device = type("Device", (), {"total_memory": 2**34})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda name: device)
    return create


@pytest.mark.parametrize(("settings", "runs", "peak"), PEAKS)
def test_estimates_are_above_the_peaks_and_near_them(settings, runs, peak, on_cuda):
    estimate = on_cuda(settings).working_bytes(runs)
    assert peak <= estimate <= 1.75 * peak + WORKSPACE


def test_an_ensemble_is_as_large_as_its_padding(on_cuda):
    small, transformer = on_cuda(ModularSettings()), on_cuda(TransformerSettings())
    assert small.working_bytes(1) == small.working_bytes(64)
    assert transformer.working_bytes(1) < transformer.working_bytes(2)


def test_an_ensemble_that_the_device_cannot_hold_is_refused(on_cuda):
    system = on_cuda(WIDE)
    schedule = RecordingSchedule(10, 10)
    check_resources(system, 400, schedule, "metrics", None)
    with pytest.raises(SettingsError, match=r"device's memory of 16\.0 GiB"):
        check_resources(system, 800, schedule, "metrics", None)
