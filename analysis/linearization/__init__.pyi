from . import loss_operators as loss_operators
from .along_trajectory import frame_indices as frame_indices
from .along_trajectory import linearize_trajectory as linearize_trajectory
from .along_trajectory import state_modes as state_modes
from .curvature_operators import CurvatureOperator as CurvatureOperator
from .curvature_table import curvature_columns as curvature_columns
from .curvature_table import curvature_legend as curvature_legend
from .curvature_table import escape_summary as escape_summary
from .curvature_table import fraction_heading as fraction_heading
from .curvature_table import median_columns as median_columns
from .curvature_table import median_table as median_table
from .curvature_table import tabulate_curvature as tabulate_curvature
from .force_jacobian import force_spectra as force_spectra
from .model_spectrum import model_curvature as model_curvature
from .model_spectrum_table import loss_warning as loss_warning
from .model_spectrum_table import model_columns as model_columns
from .model_spectrum_table import model_legend as model_legend
from .model_spectrum_table import tabulate_model as tabulate_model
from .network_curvature import flat_weight_pairs as flat_weight_pairs
from .network_curvature import loss_curvature as loss_curvature
from .network_curvature import network_state_modes as network_state_modes
from .normalisation_margin import (
    measure_normalisation_margins as measure_normalisation_margins,
)
from .operator_kinds import operator as operator
from .operator_spectra import estimate_trace as estimate_trace
from .operator_spectra import largest_eigenvalue as largest_eigenvalue
from .operator_spectra import spectral_measure as spectral_measure
from .operator_spectra import spectrum_ends as spectrum_ends
from .operator_spectra import whole_spectrum as whole_spectrum
from .plateau_escapes import measure_plateau_escapes as measure_plateau_escapes
from .spectrum_options import SpectrumOptions as SpectrumOptions
from .training_loss import training_model as training_model
from .training_loss import training_objective as training_objective
