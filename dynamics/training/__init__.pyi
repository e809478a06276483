from .ensemble import TrainingState as TrainingState
from .finetuning import finetuning_weights as finetuning_weights
from .minibatches import epoch_orders as epoch_orders
from .system import ModularSystem as ModularSystem
from .system import SparseSystem as SparseSystem
from .system import TrainingSystem as TrainingSystem
from .system import TransformerSystem as TransformerSystem
