from .pair_forces import FIELD_NAMES as FIELD_NAMES
from .pair_forces import ForceFields as ForceFields
from .pair_forces import force_fields as force_fields
from .pair_list import PairList as PairList
from .pair_list import group_pairs as group_pairs
from .particle_system import ParticleState as ParticleState
from .particle_system import ParticleSystem as ParticleSystem
