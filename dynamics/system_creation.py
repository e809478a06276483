"""Creation of systems, built-in and external ones, and their identity."""

from typing import Any

from dynamics.divergence import DivergenceGuard
from dynamics.settings import Settings
from dynamics.system import EpochClock, System, system_class
from dynamics.system_checks import (
    check_settings_instance,
    check_system,
    check_system_class,
)
from dynamics.system_kinds import (
    SYSTEM_KINDS,
    SystemIdentity,
    choose_backend,
    identify_system,
)


def system_identity(
    settings: Settings, device: str, runs: int, backend: str
) -> SystemIdentity:
    """What the identity of a run contains of its system. Only an external system is
    created for it. Raises as `create_system`."""
    if settings.system in SYSTEM_KINDS:
        return identify_system(settings, device, runs, backend)
    system = create_system(settings, device, runs=runs, backend=backend)
    return SystemIdentity(
        system.settings,
        system.device,
        system.numerics_version,
        system.backends,
        system.backend_name,
    )


def create_system(
    settings: Settings,
    device: str = "auto",
    ensemble_width: int | None = None,
    clock: EpochClock | None = None,
    runs: int = 1,
    backend: str = "auto",
) -> System:
    """The system of these settings; an external one is checked, and wrapped in a
    `DivergenceGuard`.

    ensemble_width, clock: those of a recorded run that is replayed or branched.
    backend: "auto" is the fastest one for `runs` runs. Raises SettingsError,
    MissingPackage."""
    system: Any
    if settings.system in SYSTEM_KINDS:
        identity = identify_system(settings, device, runs, backend)
        system = system_class(settings.system)(identity.settings, identity.device)
        system.backend_name = identity.backend_name
    else:
        system = create_external_system(settings, device)
        name = choose_backend(
            backend,
            system.backends,
            settings,
            system.device,
            lambda: system.fastest_backend(runs),
        )
        system.backend_name = name or system.backend_name
    if ensemble_width is not None:
        system.ensemble_width = ensemble_width
    if clock is not None:
        system.clock = clock
    if settings.system in SYSTEM_KINDS:
        return system
    return DivergenceGuard(system)  # type: ignore[return-value]


def create_external_system(settings: Any, device: str) -> System:
    """An external system, after a check that it has all attributes and methods. Raises
    SettingsError."""
    factory = system_class(settings.system)
    check_settings_instance(settings)
    check_system_class(factory)
    system = factory(settings, device)
    if not hasattr(system, "backends"):
        # a class that does not inherit from System may have been written before these
        system.backends, system.backend_name = (), ""
    check_system(system, getattr(factory, "__name__", "the system"))
    return system
