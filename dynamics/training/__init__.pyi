from .finetuning import finetuning_weights as finetuning_weights
from .minibatches import epoch_orders as epoch_orders
from .run_groups import TrainingState as TrainingState
from .training_systems import ModularSystem as ModularSystem
from .training_systems import SparseSystem as SparseSystem
from .training_systems import TrainingSystem as TrainingSystem
from .training_systems import TransformerSystem as TransformerSystem
