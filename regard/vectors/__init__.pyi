from regard.vectors.projection import pca as pca
from regard.vectors.table import Neighbour as Neighbour

__all__: list[str]
