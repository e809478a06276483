from .comparison import COMPARISON_COLUMNS as COMPARISON_COLUMNS
from .comparison import check_comparable as check_comparable
from .comparison import compare_trajectories as compare_trajectories
from .comparison import comparison_rows as comparison_rows
from .comparison import simulate_particles_from as simulate_particles_from
