"""The tokenizers have moved: they are what a model of text reads with."""

raise ImportError("regard.tokens has moved: import regard.inputs.text; Processor: regard.inputs")
