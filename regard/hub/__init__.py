"""Import and export of Hugging Face folders, and import of llama2.c files."""
