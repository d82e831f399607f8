from regard.cost.count import forward_flops as forward_flops
from regard.cost.plan import PAPER_TRAINING as PAPER_TRAINING
from regard.cost.plan import Plan as Plan
from regard.cost.plan import paper_training_flops as paper_training_flops
from regard.cost.sizes import PUBLISHED_MODELS as PUBLISHED_MODELS
from regard.cost.sizes import SIZE_COLUMNS as SIZE_COLUMNS
from regard.cost.sizes import compute_sizes as compute_sizes
from regard.cost.sizes import dollars as dollars
from regard.cost.sizes import format_sizes as format_sizes

__all__: list[str]
