from .circuits_figure import plot_circuits as plot_circuits
from .events_figure import plot_events as plot_events
from .figure_files import save_figure as save_figure
from .gradients_figure import plot_gradient_norms as plot_gradient_norms
from .interventions_figure import plot_interventions as plot_interventions
from .sparsity_figure import plot_sparsity as plot_sparsity
from .transfer_figure import plot_transfer as plot_transfer
