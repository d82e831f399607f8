"""Generated datasets: sentences of a grammar, jobs, toys, drawn scenes; and included digits."""
