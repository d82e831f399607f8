"""Tables with a column to predict: files -> rows of numbers, in splits."""
