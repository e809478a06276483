"""What named modules of a model return on a fixed batch, as recorded quantities."""

import functools
from collections.abc import Mapping
from typing import Any

import torch

from dynamics.recording.quantities import Quantity, near_names
from dynamics.settings import SettingsError
from dynamics.trajectory.schema import ACTIVATION


class ProbeActivations:
    """The outputs of modules on a probe, in eval mode, from one forward pass a frame,
    which is made where the training is kept undisturbed.

    modules: name of each module by the name of its activation; probe: the argument of
    the model, a tuple of arguments or a dict of them. Raises SettingsError for a name
    that is no module."""

    def __init__(
        self, model: torch.nn.Module, modules: Mapping[str, str], probe: Any
    ) -> None:
        if probe is None:
            allowed = "the batch on which the activations are recorded"
            raise SettingsError("probe", "none", allowed)
        names = dict(model.named_modules())
        for name in modules.values():
            if name not in names:
                raise SettingsError("activations", name, near_names(name, names))
        self.modules = modules
        self.probe = probe
        self._values: dict[str, torch.Tensor] = {}

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The recorded quantity of each activation."""
        return {
            f"{ACTIVATION}{name}": functools.partial(self._read, name)
            for name in self.modules
        }

    def _read(self, name: str, model: torch.nn.Module) -> torch.Tensor:
        """One activation; the forward pass is repeated once it has been read before."""
        if name not in self._values:
            self._run(model)
        return self._values.pop(name)

    def _run(self, model: torch.nn.Module) -> None:
        hooks = [
            model.get_submodule(module).register_forward_hook(
                functools.partial(self._keep, name)
            )
            for name, module in self.modules.items()
        ]
        model.eval()
        try:
            if isinstance(self.probe, Mapping):
                model(**self.probe)
            elif isinstance(self.probe, tuple):
                model(*self.probe)
            else:
                model(self.probe)
        finally:
            for hook in hooks:
                hook.remove()

    def _keep(self, name: str, module: Any, arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        self._values[name] = first.detach().clone()
