from .clustering_head import ClusteringHead as ClusteringHead
from .constant_attention import ConstantAttention as ConstantAttention
from .from_trajectory import clustering_head_of as clustering_head_of
from .from_trajectory import constant_attention_of as constant_attention_of
from .from_trajectory import network_of as network_of
from .from_trajectory import weights as weights
from .parameters import NetworkParameters as NetworkParameters
from .parameters import Weights as Weights
