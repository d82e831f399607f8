from regard.cost.plan import plan as plan
from regard.errors import UserError as UserError
from regard.layers import Edit as Edit
from regard.layers import Tap as Tap
from regard.layers import knock_out as knock_out
from regard.pipeline import Pipeline as Pipeline
from regard.runs.load import load as load
from regard.runs.load import vocabulary as vocabulary
from regard.runs.start import RunStart as RunStart
from regard.runs.train import train as train
from regard.runtime.device import setup as setup
from regard.vectors.store import vectors as vectors
from regard.watch import watch as watch
from regard_lectures import show as show

__all__: list[str]
__version__: str
