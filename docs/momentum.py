"""Particles with momentum: the example of guides/own-system.md, outside the package.

    x <- normalise(x + step_size F(x) + momentum v),   v: the previous displacement

Polyak's heavy ball under the force F of CA section 6. All values are dimensionless.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dynamics import ParticleSettings, System, register
from dynamics.forces import Force
from dynamics.particles.particle_system import ParticleState, ParticleSystem
from dynamics.settings import check_choice, check_real
from sims.command_line.default_command import system_command


@dataclass(frozen=True)
class MomentumSettings(ParticleSettings):
    """N particles under the forces of CA, with momentum."""

    system: ClassVar[str] = "momentum"
    momentum: float = 0.9
    """Fraction of the last displacement that is added to the next one."""

    @property
    def forces(self) -> tuple[Force, ...]:
        """The law of the system: that of particles."""
        return super().forces

    def __post_init__(self) -> None:
        super().__post_init__()
        momentum = check_real("momentum", self.momentum, below=1)
        object.__setattr__(self, "momentum", momentum)
        check_choice("step_rule", self.step_rule, ("force",))
        check_real("temperature", self.temperature, up_to=0)  # without noise


@dataclass(frozen=True)
class MomentumState(ParticleState):
    """Particles after `step` steps, and their last displacement.

    `last_step` stays as it is in a diverged run.
    """

    velocity: np.ndarray  # (run, token, axis) displacement in the last step


class MomentumSystem(System):
    """`MomentumSettings` as a system."""

    def __init__(self, settings: MomentumSettings, device: str = "auto") -> None:
        self.plain = ParticleSystem(settings, device)
        self.settings: MomentumSettings = self.plain.settings
        self.variables = {**self.plain.variables, "velocity": ("token", "axis")}

    def coords(self):
        return self.plain.coords()

    def working_bytes(self, runs):
        return 2 * self.plain.working_bytes(runs)

    def initial(self, seeds):
        first = self.plain.initial(seeds)
        return MomentumState(**vars(first), velocity=np.zeros_like(first.embedding))

    def advance(self, state, steps):
        s = self.settings
        for _ in range(steps):
            x, v = state.embedding, state.velocity
            force, norm = self.plain.force(x)
            after = self.plain.normalise(x + s.step_size * force + s.momentum * v)
            # a run that diverges keeps its state
            going = (state.last_step == state.step) & (norm < 1e38)
            norms = [norm, np.linalg.norm(after - x, axis=(1, 2))]
            before = [state.gradient_norm, state.update_norm]
            pushed, moved = np.where(going, norms, before)
            x, v = np.where(going[:, None, None], [after, after - x], [x, v])
            last_step = state.last_step + going
            state = MomentumState(state.step + 1, x, pushed, moved, last_step, v)
        return state

    def observe(self, state):
        return {**self.plain.observe(state), "velocity": state.velocity}

    def checkpoint(self, state):
        return self.plain.checkpoint(state)  # all fields of the state

    def restore(self, arrays):
        return MomentumState(**{**arrays, "step": int(arrays["step"])})


register(MomentumSettings, MomentumSystem)

if __name__ == "__main__":
    system_command(MomentumSettings, "docs.momentum")
