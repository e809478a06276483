"""Training systems: what `dynamics.simulate` asks of a system, of an ensemble of networks (`dynamics.trainer`)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from dynamics.lanes import WIDTH_32
from dynamics.networks import ConstantAttention
from dynamics.settings import ModularSettings, SettingsError
from dynamics.trainer import Team, TrainingState, advanced, at_rest, frame, moment_names, with_moments


class ModularSystem:
    """`ModularSettings` as a `System`: see `dynamics.simulate` for the protocol."""

    numerics_version = 1
    """Raised whenever a change alters results."""

    def __init__(self, settings: ModularSettings, device: str = "auto", ensemble_width: int = 0) -> None:
        self.settings, self.device, self.ensemble_width = settings, chosen_device(device), ensemble_width
        self.network = ConstantAttention(settings)
        self.variables = {
            **self.network.variables,
            "gradient_norm": ("layer",),
            "update_norm": ("layer",),
            "loss": ("split",),
            "accuracy": ("split",),
        }
        self._team: Team | None = None

    def coords(self) -> dict[str, np.ndarray]:
        """Coordinates of the dimensions that `variables` names; a split that is empty is left out."""
        splits = ["train", "validation"] if self.settings.train_pairs < self.settings.pairs else ["train"]
        numbered = {dim: np.arange(size) for dim, size in self.network.sizes.items()}
        return {**numbered, "layer": np.array(list(self.network.variables)), "split": np.array(splits)}

    def working_bytes(self, runs: int) -> int:
        """Memory that a run takes, known before any is taken."""
        s, width = self.settings, max(runs, WIDTH_32)
        return 4 * (16 * width * sum(self.network.lengths) + 6 * width * s.pairs + 64 * WIDTH_32 * s.hidden * s.n)

    def initial(self, seeds: np.ndarray) -> TrainingState:
        """First weights, one run a seed; `gradient_norm` is that of the gradient there."""
        drawn = self.network.initial(seeds).values()
        flat = torch.from_numpy(np.concatenate([weight.reshape(len(seeds), -1) for weight in drawn], axis=1))
        still = np.zeros((len(seeds), len(self.network.variables)))
        none = np.zeros(len(seeds), np.int64)
        state = TrainingState(0, np.array(seeds), flat.to(self.device), {}, 0, still, still, none)
        return self._team_of(state).next(at_rest, with_moments(state, moment_names(self.settings)))

    def advance(self, state: TrainingState, steps: int) -> TrainingState:
        """The state `steps` updates later; on a processor a run's bits depend on nothing but its own state."""
        if steps == 0:
            return state
        state = with_moments(state, moment_names(self.settings))
        return self._team_of(state).next(lambda trainer, part: advanced(trainer, part, steps), state)

    def observe(self, state: TrainingState) -> dict[str, np.ndarray]:
        """One frame: an array (run, ...) for each of `variables`."""
        frames = self._team_of(state).each(frame, with_moments(state, moment_names(self.settings)))
        return {name: np.concatenate([part[name] for part in frames]) for name in self.variables}

    def _team_of(self, state: TrainingState) -> Team:
        if self._team is None or not np.array_equal(state.seeds, self._team.seeds):
            self._team = Team(self.network, state.seeds, self.device, self.ensemble_width)
        return self._team

    def checkpoint(self, state: TrainingState) -> dict[str, np.ndarray]:
        """All that `restore` needs, exactly: `step`, and arrays with a leading run axis."""
        return {
            "step": np.asarray(state.step),
            "seeds": state.seeds,
            "weights": state.weights.cpu().numpy(),
            **{name: moment.cpu().numpy() for name, moment in state.moments.items()},
            "updates": np.full(len(state.seeds), state.updates),
            "gradient_norm": state.gradient_norm,
            "update_norm": state.update_norm,
            "last_step": state.last_step,
        }

    def restore(self, arrays: Mapping[str, Any]) -> TrainingState:
        """The state of which `checkpoint` gave the arrays, or some of its runs."""
        on_device = {
            name: torch.from_numpy(np.array(arrays[name])).to(self.device)
            for name in ("weights", *moment_names(self.settings))
        }
        return TrainingState(
            step=int(arrays["step"]),
            weights=on_device.pop("weights"),
            moments=on_device,
            updates=int(arrays["updates"][0]),
            **{name: np.array(arrays[name]) for name in ("seeds", "gradient_norm", "update_norm", "last_step")},
        )


def chosen_device(device: str) -> str:
    """cpu or cuda. Raises SettingsError."""
    if device not in ("auto", "cpu", "cuda"):
        raise SettingsError("device", device, "auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("device", device, "auto or cpu: torch finds no CUDA device here")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device
