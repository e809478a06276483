"""What the identity of a run contains of its system: data and rules of the built-in
systems, which need no system and no torch."""

import ctypes
import dataclasses
import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from dynamics import cost_model
from dynamics.errors import MissingPackage
from dynamics.settings import (
    MESH_PARTICLES,
    ModularSettings,
    ParticleSettings,
    Settings,
    SettingsError,
    SparseSettings,
)
from dynamics.start_files import append_content_hash

AnySettings = TypeVar("AnySettings", bound=Settings)


class SystemKind(NamedTuple):
    """The data of a built-in system that distinguish its runs from others."""

    numerics_version: int
    """Raised whenever a change alters results."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Kinds of devices that can compute the system."""
    backends: tuple[str, ...] = ()
    """Backends on a CPU, if there is a choice."""


SYSTEM_KINDS = {
    "particles": SystemKind(1, devices=("cpu",)),
    "modular": SystemKind(3, backends=("simd", "blas")),
    "sparse": SystemKind(2),
    "transformer": SystemKind(1),
}


class SystemIdentity(NamedTuple):
    """What the identity of a run contains of its system."""

    settings: Settings
    """With the hash of the start file, and the chosen method."""
    device: str
    numerics_version: int
    backends: tuple[str, ...]
    """Backends among which there is a choice on this device."""
    backend_name: str
    """The backend that computes it; empty without a choice."""


def identify_system(
    settings: Settings, device: str = "auto", runs: int = 1, backend: str = "auto"
) -> SystemIdentity:
    """The identity of a built-in system; the backend "auto" is the fastest one for
    `runs` runs. Raises SettingsError, MissingPackage."""
    kind = SYSTEM_KINDS[settings.system]
    device = resolve_device(device, kind)
    settings = complete_settings(settings)
    backends = kind.backends if device == "cpu" else ()
    name = choose_backend(
        backend, backends, settings, device, lambda: fastest_backend(settings, runs)
    )
    return SystemIdentity(
        settings,
        device,
        kind.numerics_version + fast_sums_version(settings),
        backends,
        name,
    )


def complete_settings(settings: AnySettings) -> AnySettings:
    """The settings as files contain them: with the SHA-256 of the file that a run
    starts from, and the method of summation that "auto" selects. Raises
    SettingsError."""
    changes = {}
    if isinstance(settings, ParticleSettings | SparseSettings):
        changes["start"] = append_content_hash(settings.start)
    if isinstance(settings, ParticleSettings) and settings.method == "auto":
        mesh_from = MESH_PARTICLES.get(settings.dim, math.inf)
        changes["method"] = "mesh" if settings.n >= mesh_from else "auto"
    return dataclasses.replace(settings, **changes)


def fast_sums_version(settings: Settings) -> int:
    """What fast sums of particles add to the numerics version of complete settings: 0
    for direct sums."""
    if not isinstance(settings, ParticleSettings) or settings.method != "mesh":
        return 0
    return 2 if settings.dim == 1 else 1


def fastest_backend(settings: Settings, runs: int) -> str:
    """The backend that is expected to train `runs` runs fastest on a CPU; empty for a
    system without a choice."""
    if not isinstance(settings, ModularSettings):
        return ""
    seconds = cost_model.epoch_seconds(settings, runs)
    return min(seconds, key=seconds.__getitem__)


def choose_backend(
    backend: str,
    backends: tuple[str, ...],
    settings: Settings,
    device: str,
    fastest: Callable[[], str],
) -> str:
    """The backend for the setting `backend`; empty without a choice. Raises
    SettingsError."""
    if backend != "auto" and backend not in backends:
        choices = " or ".join(("auto", *backends))
        allowed = f"{choices} for {settings.system} on the device {device}"
        raise SettingsError("backend", backend, allowed)
    if not backends:
        return ""
    return fastest() if backend == "auto" else backend


def resolve_device(device: str, kind: SystemKind) -> str:
    """The device, "cpu" or "cuda", for the setting "auto", "cpu" or "cuda". Raises
    SettingsError, MissingPackage."""
    if "cuda" not in kind.devices:
        if device not in ("auto", "cpu"):
            allowed = "auto or cpu: particles run on the CPU"
            raise SettingsError("device", device, allowed)
        return "cpu"
    if device not in ("auto", "cpu", "cuda"):
        raise SettingsError("device", device, "auto, cpu or cuda")
    if device == "cpu":
        return "cpu"
    if cuda_is_available():
        return "cuda"
    if device == "cuda":
        allowed = "auto or cpu: torch finds no CUDA device here"
        raise SettingsError("device", device, allowed)
    return "cpu"


def cuda_is_available() -> bool:
    """Whether torch finds a CUDA device; torch is imported only if there is a driver.
    Raises MissingPackage."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        if not Path("/dev/kfd").exists():  # the driver of AMD devices
            return False
    try:
        return importlib.import_module("torch").cuda.is_available()
    except ImportError as error:
        if error.name != "torch":
            raise
        raise MissingPackage(TORCH_MISSING) from None


TORCH_MISSING = (
    "training needs torch; install it by: pip install 'training-dynamics[train]'"
)
