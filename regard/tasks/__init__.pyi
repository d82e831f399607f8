from regard.tasks.answer import Answer as Answer
from regard.tasks.classify import Classify as Classify
from regard.tasks.classify_images import ClassifyImages as ClassifyImages
from regard.tasks.classify_images import ImageOptions as ImageOptions
from regard.tasks.fill import Fill as Fill
from regard.tasks.fill import max_text_tokens as max_text_tokens
from regard.tasks.fill import symbols_of as symbols_of
from regard.tasks.generate import Generate as Generate
from regard.tasks.generate import Suggestion as Suggestion
from regard.tasks.labelled_task import ReadingOptions as ReadingOptions
from regard.tasks.labelled_task import with_task_head as with_task_head
from regard.tasks.measures.bleu import score_translations as score_translations
from regard.tasks.measures.translation import pronoun_accuracy as pronoun_accuracy
from regard.tasks.restore import Restore as Restore
from regard.tasks.specs import TASKS as TASKS
from regard.tasks.tag import Tag as Tag
from regard.tasks.teacher import Teacher as Teacher
from regard.tasks.trace import Trace as Trace
from regard.tasks.translate import Translate as Translate

__all__: list[str]
