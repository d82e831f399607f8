"""Other people's models: Hugging Face folders in and out."""
