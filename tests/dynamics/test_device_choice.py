"""Which device and backend `auto` selects, and how files name them."""

import pytest

from dynamics import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    TransformerSettings,
    cost_model,
    run_path,
    system,
)
from dynamics.ensemble import system_identity

SMALL = (ModularSettings(), SparseSettings())


@pytest.fixture(autouse=True)
def device_of_16_cores(monkeypatch):
    """A machine with a CUDA device and numba-cuda."""
    for name in ("cuda_is_available", "numba_finds_cuda"):
        monkeypatch.setattr(system, name, lambda: True)
    monkeypatch.setattr(system.os, "cpu_count", lambda: 16)
    monkeypatch.setattr(system, "numba_cuda_is_installed", lambda: True)


def choice(settings, device="auto", runs=1000, backend="auto"):
    identity = system_identity(settings, device, runs, backend)
    return identity.device, identity.backend_name


MEASURED = [
    (ModularSettings(), 400, 531_000, 1_207_000),
    (SparseSettings(), 100, 10_200, 4_960),
    (TransformerSettings(attention_rate=0.0), 8, 98.5, 2_106),
    (TransformerSettings(), 8, 58.1, 1_566),
]
"""Settings, runs, and run-epochs a second on 16 cores and on an H100 with torch."""


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: str(case))
def test_the_model_agrees_with_what_was_measured(case):
    settings, runs, cpu, cuda = case
    seconds = cost_model.device_seconds(settings, runs, 16, "torch")
    assert runs / cpu == pytest.approx(seconds["cpu"], rel=0.4)
    assert runs / cuda == pytest.approx(seconds["cuda"], rel=0.3)


def test_small_ensembles_stay_on_the_cpu():
    assert choice(ModularSettings(), runs=1)[0] == "cpu"
    assert choice(ModularSettings(), runs=10_000) == ("cuda", "blocks")
    assert choice(SparseSettings(), runs=100) == ("cuda", "blocks")
    assert choice(TransformerSettings(), runs=1) == ("cuda", "")
    assert choice(ParticleSettings(), runs=100) == ("cpu", "")
    assert choice(ParticleSettings(), runs=100_000) == ("cuda", "")


def test_without_numba_cuda_torch_computes(monkeypatch):
    monkeypatch.setattr(system, "numba_cuda_is_installed", lambda: False)
    for settings in SMALL:
        assert choice(settings, "cuda") == ("cuda", "torch")
        with pytest.raises(SettingsError, match="torch here: numba-cuda is not inst"):
            choice(settings, "cuda", backend="blocks")
    assert choice(SparseSettings(), runs=100)[0] == "cpu"


def test_a_network_that_does_not_fit_into_a_block_is_computed_with_torch():
    for settings in (ModularSettings(n=113, hidden=128), SparseSettings(hidden=20_000)):
        assert choice(settings, "cuda") == ("cuda", "torch")
        with pytest.raises(SettingsError, match="does not fit into the shared memory"):
            choice(settings, "cuda", backend="blocks")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            ParticleSettings(n=199),
            "fast sums are computed on a CPU, and --method direct",
        ),
        (
            ParticleSettings(n=3000, method="direct"),
            "do not fit into the shared memory",
        ),
    ],
)
def test_particles_that_a_device_cannot_compute_stay_on_the_cpu(settings, reason):
    assert choice(settings, runs=10_000) == ("cpu", "")
    with pytest.raises(SettingsError, match=f"device: found cuda, allowed .*{reason}"):
        choice(settings, "cuda")
    with pytest.raises(SettingsError, match=reason):
        system.SYSTEM_KINDS["particles"].check_device(settings, "cuda")


def test_particles_need_numba_cuda_and_no_torch(monkeypatch):
    monkeypatch.setattr(system, "cuda_is_available", lambda: 1 / 0)
    assert choice(ParticleSettings(), "cuda") == ("cuda", "")
    monkeypatch.setattr(system, "numba_finds_cuda", lambda: False)
    assert choice(ParticleSettings(), runs=100_000) == ("cpu", "")
    with pytest.raises(SettingsError, match="numba-cuda finds no CUDA device here"):
        choice(ParticleSettings(), "cuda")
    monkeypatch.setattr(system, "numba_cuda_is_installed", lambda: False)
    with pytest.raises(SettingsError, match="numba-cuda is not installed; pip install"):
        choice(ParticleSettings(), "cuda")


def test_a_backend_selects_its_device():
    assert choice(ModularSettings(), backend="simd") == ("cpu", "simd")
    assert choice(ModularSettings(), runs=1, backend="blocks") == ("cuda", "blocks")
    assert choice(SparseSettings(), runs=1, backend="torch") == ("cuda", "torch")
    with pytest.raises(SettingsError, match="backend: found simd, allowed is auto or"):
        choice(ModularSettings(), "cuda", backend="simd")


def test_files_keep_their_names():
    """Names are as they were before there was a choice of backends: for files of a CPU,
    and for files that torch computed on a CUDA device."""
    names = {
        ("modular", "cpu", "auto"): "ff218fc05954",
        ("modular", "cuda", "torch"): "700c5ef01fc1",
        ("sparse", "cpu", "auto"): "591fbefb00a9",
        ("sparse", "cuda", "torch"): "cd23bd6d3634",
    }
    for settings in SMALL:
        for device, backend in (("cpu", "auto"), ("cuda", "torch")):
            path = run_path(settings, 100, 0, device=device, backend=backend)
            name = names[settings.system, device, backend]
            assert path.stem == f"{settings.system}-{name}"
        blocks = run_path(settings, 100, 0, device="cuda", backend="blocks")
        assert blocks.stem.split("-")[1] not in names.values()
