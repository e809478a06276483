from .activation_sparsity import SPARSITY_COLUMNS as SPARSITY_COLUMNS
from .activation_sparsity import SPARSITY_LEGEND as SPARSITY_LEGEND
from .activation_sparsity import compare_successes as compare_successes
from .activation_sparsity import measure_sparsity as measure_sparsity
from .activation_sparsity import sparsity_table as sparsity_table
from .activation_sparsity import trajectory_labels as trajectory_labels
from .circuit_analysis import circuit_columns as circuit_columns
from .circuit_analysis import circuit_legend as circuit_legend
from .circuit_analysis import circuit_table as circuit_table
from .circuit_analysis import describe_circuits as describe_circuits
from .circuit_analysis import format_missing_invariances as format_missing_invariances
from .circuit_analysis import measure_circuits as measure_circuits
from .circuit_landscape import LANDSCAPE_COLUMNS as LANDSCAPE_COLUMNS
from .circuit_landscape import LANDSCAPE_LEGEND as LANDSCAPE_LEGEND
from .circuit_landscape import REST_GRADIENT as REST_GRADIENT
from .circuit_landscape import check_landscape_settings as check_landscape_settings
from .circuit_landscape import fixed_point_landscape as fixed_point_landscape
from .circuit_landscape import format_perturbation_table as format_perturbation_table
from .circuit_landscape import landscape_table as landscape_table
from .clusters import ideal_cluster_count as ideal_cluster_count
from .learning_outcome import LEARNING_COLUMNS as LEARNING_COLUMNS
from .learning_outcome import OPERATION_COLUMNS as OPERATION_COLUMNS
from .learning_outcome import final_accuracies as final_accuracies
from .learning_outcome import learning_table as learning_table
from .transfer_design import TransferDesign as TransferDesign
from .vocabulary_transfer import TRANSFER_COLUMNS as TRANSFER_COLUMNS
from .vocabulary_transfer import TRANSFER_TITLE as TRANSFER_TITLE
from .vocabulary_transfer import (
    format_transfer_by_clusters as format_transfer_by_clusters,
)
from .vocabulary_transfer import run_transfer as run_transfer
from .vocabulary_transfer import transfer_table as transfer_table
