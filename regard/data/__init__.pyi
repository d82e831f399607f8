from regard.data.batch import Batch as Batch
from regard.data.batch import Cursor as Cursor
from regard.data.config import DigitsData as DigitsData
from regard.data.config import ImagesData as ImagesData
from regard.data.config import ScenesData as ScenesData
from regard.data.images.labelled_images import ImageSplits as ImageSplits
from regard.data.images.labelled_images import LabelledImages as LabelledImages
from regard.data.images.sources import load_images as load_images
from regard.data.sources import load_splits as load_splits
from regard.data.synthetic import grammar as grammar
from regard.data.synthetic.scenes import make_scene as make_scene
from regard.data.text.annotations import LabelledText as LabelledText
from regard.data.text.corpus import Corpus as Corpus
from regard.data.text.corruption import CorruptedCorpus as CorruptedCorpus
from regard.data.text.corruption import Masking as Masking
from regard.data.text.corruption import Symbols as Symbols
from regard.data.text.files import load_pairs as load_pairs
from regard.data.text.files import split_files as split_files
from regard.data.text.labelled import read_labelled as read_labelled
from regard.data.text.packing import Packed as Packed
from regard.data.text.pairs import Pair as Pair
from regard.data.text.pairs import Splits as Splits
from regard.data.text.python_docs import python_text as python_text
from regard.data.text.spans import SpanCorruption as SpanCorruption

__all__: list[str]
