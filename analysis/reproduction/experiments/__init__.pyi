from .register import EXPERIMENTS as EXPERIMENTS
from .register import required_experiments as required_experiments
