from .default_command import system_command as system_command
from .end_picture import draw_ends as draw_ends
from .ensemble_run import open_origin as open_origin
from .ensemble_run import options_from_trajectory as options_from_trajectory
from .ensemble_run import print_backend as print_backend
from .ensemble_run import print_diverged as print_diverged
from .ensemble_run import run_ensemble as run_ensemble
from .particle_steps import print_large_steps as print_large_steps
from .particle_steps import (
    print_points_with_large_steps as print_points_with_large_steps,
)
from .run_files import UNREADABLE as UNREADABLE
from .run_files import describe_run_file as describe_run_file
from .run_files import list_run_files as list_run_files
from .sweep_results import MAX_PRINTED_POINTS as MAX_PRINTED_POINTS
from .sweep_results import replaced_steps as replaced_steps
from .sweep_results import sweep_figure_columns as sweep_figure_columns
from .sweep_results import sweep_path as sweep_path
from .sweep_results import sweep_rows as sweep_rows
from .sweep_results import sweep_table_columns as sweep_table_columns
