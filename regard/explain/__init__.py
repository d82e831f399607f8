"""Pictures, pages and summary numbers of recorded attention."""
