"""Generated pairs for a model of several jobs."""
