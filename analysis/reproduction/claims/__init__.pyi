from .registry import CLAIMS as CLAIMS
from .registry import format_claim_list as format_claim_list
from .registry import select_claims as select_claims
