"""What a model reads: arrays of numbers, and one reader for each modality."""
