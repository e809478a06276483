"""The interface of a dynamical system, the registry of systems, and what identifies the
system of a run.

A system advances a whole ensemble of runs. The simulation loop (`dynamics.loop`),
the file format and the analyses use systems only through the protocol `System`. The
registry maps the name of a system, which trajectories store in the attribute `system`,
to its class.

A built-in system is identified without being created, by the data and rules of its
`SystemKind`. This module imports only the standard library, so that --help is fast."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
import importlib.util
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from dynamics import cost_model
from dynamics.errors import MissingPackage
from dynamics.settings import (
    SETTINGS_CLASSES,
    RecordedSettings,
    Settings,
    SettingsError,
    StartSettings,
    append_content_hash,
)
from dynamics.settings_checks import check_says_its_system, check_system_name

if TYPE_CHECKING:
    import numpy as np

AnySettings = TypeVar("AnySettings", bound=Settings)

Arrays = Mapping[str, "np.ndarray"]


class EpochClock(NamedTuple):
    """Reference point for counting epochs: step `step` is epoch `epoch`.

    A branch that changes the number of steps per epoch sets a new reference point.
    """

    step: int = 0
    epoch: float = 0.0

    def at(self, steps: Any, epoch_steps: int) -> Any:
        """The epoch, as a float, of each of the steps `steps`, if an epoch has
        `epoch_steps` steps."""
        return self.epoch + (steps - self.step) / epoch_steps


DEFAULT_CLOCK = EpochClock()


class State(Protocol):
    """The state of an ensemble: the attributes that the simulation loop reads."""

    @property
    def step(self) -> int: ...

    @property
    def last_step(self) -> np.ndarray:
        """(run,) The last step with finite values; it equals `step` unless the run has
        diverged."""


class System(Protocol):
    """A dynamical system whose state is a set of points, for an ensemble of runs that
    are advanced together.

    A subclass inherits the default attributes, and can be instantiated only if it
    implements all abstract methods. A system is created by `SystemClass(settings,
    device)`. See docs/guides/own-system.md for an example."""

    settings: Settings
    """Saved as JSON in each file, so that the run can be repeated."""
    variables: dict[str, tuple[str, ...]]
    """What `observe` returns: name -> dimensions after (run, step)."""
    numerics_version: int = 1
    """Increased whenever a change of the code alters results."""
    device: str = "cpu"
    """Kind of device: cpu or cuda."""
    ensemble_width: int = 0
    """Number of runs of the whole ensemble if the last bits of a run depend on it
    (CUDA), otherwise 0."""
    clock: EpochClock = DEFAULT_CLOCK
    """Reference point for counting epochs, for systems that have epochs."""
    backends: tuple[str, ...] = ()
    """Names of the backends that can compute the system on its device, if it has
    backends of several kinds."""
    backend_name: str = ""
    """The one of `backends` that computes it; it determines the last bits of a run.
    Empty without a choice."""

    def fastest_backend(self, runs: int) -> str:
        """The one of `backends` that is expected to compute an ensemble of `runs` runs
        fastest."""
        return self.backend_name

    @abstractmethod
    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions that `variables` names."""

    @abstractmethod
    def working_bytes(self, runs: int) -> int:
        """Estimated memory in bytes that an ensemble of `runs` runs needs; nothing is
        allocated."""

    @abstractmethod
    def initial(self, seeds: np.ndarray) -> State:
        """The state at step 0 of runs with these seeds (run,)."""

    @abstractmethod
    def advance(self, state: State, steps: int) -> State:
        """The state `steps` steps later; the given state is not changed."""

    @abstractmethod
    def observe(self, state: State) -> Arrays:
        """One frame: an array (run, ...) for each of `variables`."""

    @abstractmethod
    def checkpoint(self, state: State) -> Arrays:
        """The exact restart state for `restore`: `step`, and arrays with a leading run
        axis."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> State:
        """The state from the arrays of `checkpoint`, for all of its runs or a subset of
        them."""


# ----------------------------------------------------------------------------- registry

SYSTEM_CLASSES: dict[str, str | Callable[..., Any]] = {
    "particles": "dynamics.particles.particle_system.ParticleSystem",
    "modular": "dynamics.training.training_systems.ModularSystem",
    "sparse": "dynamics.training.training_systems.SparseSystem",
    "transformer": "dynamics.training.training_systems.TransformerSystem",
}
"""Class of each system, or its import path, by the name of the system in settings and
trajectories."""


def register(settings: type[Settings], system: Callable[..., Any]) -> None:
    """Register a system, so that `simulate` can run it and its trajectories can be
    opened.

    Registering the same class again is allowed.

    Parameters
    ----------
    settings : type
        Frozen dataclass of the system's settings; its attribute `system` is the name
        stored in trajectories.
    system : callable
        The class of the system, called as `system(settings, device)`.

    Raises
    ------
    SettingsError
        If the name is not valid, or is the name of another settings class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from dynamics import ParticleSettings, register, simulate
    >>> from dynamics.particles.particle_system import ParticleSystem
    >>> @dataclass(frozen=True)
    ... class HeavySettings(ParticleSettings):
    ...     system = "heavy"
    >>> register(HeavySettings, ParticleSystem)
    >>> simulate(HeavySettings(n=5), runs=2, steps=3).attrs["system"]
    'heavy'
    """
    check_system_name(
        settings, {**SETTINGS_CLASSES, RecordedSettings.system: RecordedSettings}
    )
    SETTINGS_CLASSES[settings.system] = settings
    SYSTEM_CLASSES[settings.system] = system


def system_class(name: str) -> Callable[..., Any]:
    """The class of a registered system, imported on first use. Raises SettingsError,
    MissingPackage."""
    if name == RecordedSettings.system:
        allowed = (
            "a system that can be simulated; a recorded model is trained in its own"
            " loop, see dynamics.record"
        )
        raise SettingsError("system of the settings", name, allowed)
    if name not in SYSTEM_CLASSES:
        allowed = (
            f"one of {', '.join(SYSTEM_CLASSES)}, or a system registered with"
            " dynamics.register"
        )
        raise SettingsError("system of the settings", name, allowed)
    factory = SYSTEM_CLASSES[name]
    if not isinstance(factory, str):
        return factory
    module, _, attribute = factory.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        if error.name != "torch":
            raise
        raise MissingPackage(TORCH_MISSING) from None


TORCH_MISSING = (
    "training needs torch; install it by: pip install 'training-dynamics[train]'"
)


# ----------------------------------------------------------------------- built-in kinds


class SystemKind:
    """What distinguishes the runs of a built-in system from others."""

    numerics_version = 1
    """Raised whenever a change alters results."""
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Kinds of devices that can compute the system."""
    backends: tuple[str, ...] = ()
    """Backends on a CPU, if there is a choice."""
    cuda_backends: tuple[str, ...] = ()
    """Names of the backends that can be chosen on a CUDA device; empty if there is
    only one."""

    def backends_on(self, device: str) -> tuple[str, ...]:
        """Names of the backends that can be chosen on a kind of device; empty if there
        is only one."""
        return self.backends if device == "cpu" else self.cuda_backends

    def version(self, settings: Any) -> int:
        """The numerics version of runs with these settings."""
        return self.numerics_version

    def fastest_backend(self, settings: Any, runs: int) -> str:
        """The backend that is expected to compute `runs` runs fastest on a CPU; empty
        without a choice."""
        return ""

    def finds_cuda(self) -> bool:
        """Whether this machine has a CUDA device that can compute the system. Raises
        MissingPackage."""
        return cuda_is_available()

    def reason_without_cuda(self) -> str:
        """Why there is no such device."""
        return "torch finds no CUDA device here"

    def reason_against_cuda(self, settings: Any) -> str:
        """Why a CUDA device cannot compute a system with these settings; empty if it
        can."""
        return ""

    def check_device(self, settings: Any, device: str) -> None:
        """Raise SettingsError if a kind of device cannot compute a system with these
        settings."""
        reason = self.reason_against_cuda(settings) if device == "cuda" else ""
        if reason:
            raise SettingsError("device", device, f"auto or cpu here: {reason}")

    def fastest_device(self, settings: Any, runs: int) -> str:
        """The device that is expected to compute `runs` runs fastest, where there is a
        CUDA device."""
        if self.reason_against_cuda(settings):
            return "cpu"
        backend = cuda_backend(settings, self)
        cores = os.cpu_count() or 1
        seconds = cost_model.device_seconds(settings, runs, cores, backend)
        return min(seconds, key=seconds.__getitem__)


class ParticleKind(SystemKind):
    """Fast sums on a mesh have a version of their own, one higher than that of direct
    sums. Files of former fast sums in one, three and four dimensions have version 2
    or 3; direct sums must not have these.

    On a CUDA device particles are computed with numba-cuda, without torch."""

    def finds_cuda(self) -> bool:
        return numba_finds_cuda()

    def reason_without_cuda(self) -> str:
        if not numba_cuda_is_installed():
            return NUMBA_CUDA_MISSING
        return "numba-cuda finds no CUDA device here"

    def reason_against_cuda(self, settings: Any) -> str:
        particles = importlib.import_module("dynamics.particles.cuda_particles")
        return str(particles.reason_against_device(settings))

    def version(self, settings: Any) -> int:
        return self.numerics_version + int(settings.uses_mesh)


class ModularKind(SystemKind):
    """The network of CA, which is trained on SIMD lanes or by matrix products."""

    numerics_version = 3
    backends = ("simd", "blas")
    cuda_backends = ("blocks", "torch")

    def fastest_backend(self, settings: Any, runs: int) -> str:
        seconds = cost_model.epoch_seconds(settings, runs)
        return min(seconds, key=seconds.__getitem__)


class SparseKind(SystemKind):
    """The network of VC."""

    numerics_version = 2
    cuda_backends = ("blocks", "torch")


SYSTEM_KINDS: dict[str, SystemKind] = {
    "particles": ParticleKind(),
    "modular": ModularKind(),
    "sparse": SparseKind(),
    "transformer": SystemKind(),
}


def present_numerics_version(settings: Settings) -> int | None:
    """The numerics version of runs that this program computes with these settings; None
    of a recorded model, which has none. An external system is not created.

    Raises SettingsError, MissingPackage."""
    if settings.system in SYSTEM_KINDS:
        return SYSTEM_KINDS[settings.system].version(settings)
    if settings.system == RecordedSettings.system:
        return None
    factory: Any = system_class(settings.system)
    version = getattr(factory, "numerics_version", None)
    kind = getattr(factory, "kind", None)
    if version is None and isinstance(kind, SystemKind):
        version = kind.version(settings)
    return version


# ----------------------------------------------------------------------------- identity


class SystemIdentity(NamedTuple):
    """What the identity of a run contains of its system."""

    settings: Settings
    """With the hash of the start file."""
    device: str
    numerics_version: int
    backends: tuple[str, ...]
    """Backends among which there is a choice on this device."""
    backend_name: str
    """The backend that computes it; empty without a choice."""


def identify_system(
    settings: Settings, device: str, runs: int, backend: str
) -> SystemIdentity:
    """The identity of a built-in system; the backend "auto" is the fastest one for
    `runs` runs. Raises SettingsError, MissingPackage."""
    check_says_its_system(settings, SETTINGS_CLASSES[settings.system])
    kind = SYSTEM_KINDS[settings.system]
    wanted = device
    device = resolve_device(device, kind)
    settings = complete_settings(settings)
    if wanted == "auto" and device == "cuda":
        device = device_of_backend(backend, kind) or kind.fastest_device(settings, runs)
    kind.check_device(settings, device)
    backends = kind.backends_on(device)
    check_backend(backend, backends, settings.system, device)
    if device == "cuda" and backends:
        backend = cuda_backend(settings, kind, backend)
    elif backend == "auto":
        backend = kind.fastest_backend(settings, runs) if backends else ""
    version = kind.version(settings)
    return SystemIdentity(settings, device, version, backends, backend)


def complete_settings(settings: AnySettings) -> AnySettings:
    """The settings as files contain them: with the SHA-256 of the file that a run
    starts from. Raises SettingsError."""
    if not isinstance(settings, StartSettings):
        return settings
    return dataclasses.replace(settings, start=append_content_hash(settings.start))


def check_backend(
    backend: str, backends: tuple[str, ...], system: str, device: str
) -> None:
    """Raise SettingsError unless the backend is "auto" or one of those of a system on a
    device."""
    if backend != "auto" and backend not in backends:
        choices = " or ".join(("auto", *backends))
        allowed = f"{choices} for {system} on the device {device}"
        raise SettingsError("backend", backend, allowed)


def device_of_backend(backend: str, kind: SystemKind) -> str:
    """The kind of device that has a backend; empty if it does not determine it."""
    for device in kind.devices:
        if backend in kind.backends_on(device):
            return device
    return ""


def cuda_backend(settings: Any, kind: SystemKind, backend: str = "auto") -> str:
    """The backend on a CUDA device: the given one, or for "auto" blocks of threads if
    numba-cuda is installed and a run fits into a block; empty without a choice. Raises
    SettingsError if the given one cannot be used."""
    if backend == "torch" or not kind.cuda_backends:
        return backend if kind.cuda_backends else ""
    if not numba_cuda_is_installed():
        reason = NUMBA_CUDA_MISSING
    else:
        blocks = importlib.import_module("dynamics.training.cuda_backends")
        reason = blocks.reason_against_blocks(settings)
    if reason and backend == "blocks":
        raise SettingsError("backend", backend, f"torch here: {reason}")
    return "torch" if reason else "blocks"


def resolve_device(device: str, kind: SystemKind) -> str:
    """The device, "cpu" or "cuda", for the setting "auto", "cpu" or "cuda". Raises
    SettingsError, MissingPackage."""
    if device not in ("auto", "cpu", "cuda"):
        raise SettingsError("device", device, "auto, cpu or cuda")
    if device == "cpu":
        return "cpu"
    if kind.finds_cuda():
        return "cuda"
    if device == "cuda":
        allowed = f"auto or cpu: {kind.reason_without_cuda()}"
        raise SettingsError("device", device, allowed)
    return "cpu"


NUMBA_CUDA_MISSING = (
    "numba-cuda is not installed; pip install 'training-dynamics[cuda]'"
)


def numba_cuda_is_installed() -> bool:
    """Whether kernels for CUDA devices can be compiled."""
    return importlib.util.find_spec("numba_cuda") is not None


def numba_finds_cuda() -> bool:
    """Whether numba-cuda finds a CUDA device; it is imported only if there is a
    driver."""
    if not numba_cuda_is_installed() or not _has_cuda_driver():
        return False
    return bool(importlib.import_module("numba.cuda").is_available())


def _has_cuda_driver() -> bool:
    """Whether the library of the driver of CUDA devices can be loaded."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def cuda_is_available() -> bool:
    """Whether torch finds a CUDA device; torch is imported only if there is a driver.
    Raises MissingPackage."""
    if (
        not _has_cuda_driver() and not Path("/dev/kfd").exists()
    ):  # driver of AMD devices
        return False
    try:
        return importlib.import_module("torch").cuda.is_available()
    except ImportError as error:
        if error.name != "torch":
            raise
        raise MissingPackage(TORCH_MISSING) from None
