"""Which settings say the law of their system.

`ParticleSettings.forces` is the law of particles. A system from outside whose settings
inherit from `ParticleSettings` may compute other forces, so an inherited `forces` is
taken as its law only if `ParticleSystem` itself computes it; otherwise its settings
define `forces` anew. What needs the law of other settings refuses them."""

from __future__ import annotations

import dataclasses
from typing import Any

from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import ParticleSettings, SettingsError
from dynamics.settings_text import EXPRESSIONS
from dynamics.system import SYSTEM_CLASSES


def moves_as_particles(settings: Any) -> bool:
    """Whether `ParticleSystem` computes the runs of these settings."""
    if not isinstance(settings, ParticleSettings):
        return False
    if settings.system == ParticleSettings.system:
        return True
    return SYSTEM_CLASSES.get(settings.system) is ParticleSystem


def has_known_law(settings: Any) -> bool:
    """Whether `settings.forces` is the law of the system of these settings."""
    if not isinstance(settings, ParticleSettings):
        return False
    defines_forces = type(settings).forces is not ParticleSettings.forces
    return defines_forces or moves_as_particles(settings)


def known_law(settings: Any, name: str = "law") -> ParticleSettings:
    """The law of settings as settings of particles: itself, or for a subclass
    `ParticleSettings` with its forces and the values of all inherited fields.

    name: that of the argument. Raises SettingsError if they do not say it."""
    if type(settings) is ParticleSettings:
        return settings
    if not has_known_law(settings):
        allowed = "those of particles, or of a subclass that defines `forces`"
        raise SettingsError(name, _settings_of(settings), allowed)
    values = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(ParticleSettings)
    }
    forces = settings.forces
    if forces != ParticleSettings(**values).forces:
        values |= {text: getattr(ParticleSettings, text) for text in EXPRESSIONS}
        values["law"] = forces
    return ParticleSettings(**values)


def check_moves_as_particles(settings: Any, name: str = "law") -> None:
    """Raise SettingsError unless `ParticleSystem` computes the runs of settings. name:
    that of the argument."""
    if not moves_as_particles(settings):
        allowed = "those of particles, as another system may move otherwise"
        raise SettingsError(name, _settings_of(settings), allowed)


def _settings_of(settings: Any) -> str:
    system = getattr(settings, "system", None)
    kind = type(settings).__name__
    return f"{kind} of the system {system}" if system else f"a {kind}"
