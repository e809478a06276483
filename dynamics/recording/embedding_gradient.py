"""The gradient of the embedding, kept from the first update after each recorded
frame."""

from collections.abc import Sequence
from typing import Any

import torch

from dynamics.recording.quantities import (
    ParameterView,
    Quantity,
    named_tensors,
    near_names,
    parameter_view,
)
from dynamics.recording.update_norms import loss_scale, trained_identities
from dynamics.settings import SettingsError

GRADIENT = "embedding_gradient"
"""Name of the variable."""


class EmbeddingGradient:
    """The gradient that the first update after the last frame
    used, at the embedding of that frame. It is seen as the embedding is: transposed,
    with its rows. Zeros before the first update.

    Raises SettingsError unless the embedding is a parameter that an optimizer trains.
    """

    def __init__(
        self,
        embedding: Quantity | None,
        model: torch.nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
    ) -> None:
        if not isinstance(embedding, str | ParameterView):
            kind = "an embedding that is a function of the model"
            raise SettingsError(
                "embedding_gradient",
                "no embedding" if embedding is None else kind,
                "an embedding that is a parameter",
            )
        self.view = parameter_view(embedding)
        self.model = model
        parameters = named_tensors(model)
        parameter = parameters.get(self.view.name)
        if id(parameter) not in trained_identities(optimizers):
            raise SettingsError(
                "embedding_gradient",
                f"the gradient of {self.view.name}",
                near_names(self.view.name, parameters),
            )
        self.last = torch.zeros_like(self.view.of(parameters).detach())

    @torch.no_grad()
    def keep(self, optimizer: Any) -> None:
        """Keep the gradient that the parameter has now, if the optimizer trains it."""
        parameter = named_tensors(self.model).get(self.view.name)
        if parameter is None or id(parameter) not in trained_identities([optimizer]):
            return
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(parameter)
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        self.last = self.view.of({self.view.name: dense}) * loss_scale(optimizer)
