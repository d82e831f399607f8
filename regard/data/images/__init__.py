"""Images: files -> pixels -> a model's input; and the included dataset of digits."""
