"""The gradient of the embedding, kept from the first update after each recorded
frame."""

from collections.abc import Sequence

import torch

from dynamics.recording.quantities import ParameterView, Quantity, near_names
from dynamics.recording.update_norms import loss_scale
from dynamics.settings import SettingsError


class EmbeddingGradient:
    """A recorded quantity: the gradient that the first update after the last frame
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
        view = ParameterView(embedding) if isinstance(embedding, str) else embedding
        if not isinstance(view, ParameterView):
            kind = (
                "no embedding"
                if view is None
                else "an embedding that is a function of the model"
            )
            raise SettingsError(
                "embedding_gradient", kind, "an embedding that is a parameter"
            )
        named = dict(model.named_parameters(remove_duplicate=False))
        places = [
            place
            for place, optimizer in enumerate(optimizers)
            if any(
                parameter is named.get(view.name)
                for group in optimizer.param_groups
                for parameter in group["params"]
            )
        ]
        if not places:
            raise SettingsError(
                "embedding_gradient",
                f"the gradient of {view.name}",
                near_names(view.name, named),
            )
        self.view, self.parameter, self.place = view, named[view.name], places[0]
        self.optimizer = optimizers[self.place]
        self.last = torch.zeros_like(view.of({view.name: self.parameter.detach()}))

    def __call__(self, model: torch.nn.Module) -> torch.Tensor:
        """The gradient that is kept."""
        return self.last

    @torch.no_grad()
    def keep(self) -> None:
        """Keep the gradient that the parameter has now."""
        gradient = self.parameter.grad
        if gradient is None:
            gradient = torch.zeros_like(self.parameter)
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        self.last = self.view.of({self.view.name: dense}) * loss_scale(self.optimizer)
