from regard.atlas import show as show
from regard.errors import UserError as UserError
from regard.layers import Edit as Edit
from regard.layers import Tap as Tap
from regard.layers import knock_out as knock_out
from regard.loading import load as load
from regard.loading import vocabulary as vocabulary
from regard.pipeline import Pipeline as Pipeline
from regard.plan import plan as plan
from regard.training import train as train
from regard.watch import watch as watch

__all__: list[str]
__version__: str
