"""What named modules of a model return on a fixed batch, as recorded quantities."""

import functools
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dynamics.recording.quantities import (
    Quantity,
    as_array,
    check_mapping,
    near_names,
)
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
        check_mapping("activations", modules, "names of modules by name")
        names = dict(model.named_modules())
        for name in modules.values():
            if not isinstance(name, str):
                allowed = "the name of a module as text"
                raise SettingsError("activations", f"a {type(name).__name__}", allowed)
            if name not in names:
                raise SettingsError("activations", name, near_names(name, names))
        self.modules = modules
        self.probe = _copied(probe)
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
        probe = _copied(self.probe)
        try:
            if isinstance(probe, Mapping):
                model(**probe)
            elif isinstance(probe, tuple):
                model(*probe)
            else:
                model(probe)
        finally:
            for hook in hooks:
                hook.remove()
        for name, module in self.modules.items():
            if name not in self._values:
                found = f"{module}, which the model does not call on the probe"
                raise SettingsError("activations", found, "a module that it calls")

    def definition(self) -> str:
        """The modules, and a digest of the tensors of the probe, as words."""
        result = hashlib.sha256()
        for tensor in _tensors_of(self.probe):
            values = as_array(tensor)
            result.update(f"{values.dtype}{values.shape}".encode() + values.tobytes())
        modules = ", ".join(f"{name}: {of}" for name, of in self.modules.items())
        return f"{modules}; tensors of the digest {result.hexdigest()[:12]}"

    def _keep(self, name: str, module: Any, arguments: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        self._values[name] = first.detach().clone()


def _copied(probe: Any) -> Any:
    """A probe with copies of its tensors, which a model may change in place."""
    if isinstance(probe, torch.Tensor):
        return probe.detach().clone()
    if isinstance(probe, Mapping):
        return {name: _copied(part) for name, part in probe.items()}
    if type(probe) in (tuple, list):
        return type(probe)(map(_copied, probe))
    return probe


def _tensors_of(probe: Any) -> Iterator[torch.Tensor]:
    """The tensors in a probe, in their order."""
    if isinstance(probe, torch.Tensor):
        yield probe
    elif isinstance(probe, Mapping | tuple | list):
        for part in probe.values() if isinstance(probe, Mapping) else probe:
            yield from _tensors_of(part)
