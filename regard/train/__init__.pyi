from regard.train.adam import Adam as Adam
from regard.train.log import TrainingProgress as TrainingProgress

__all__: list[str]
