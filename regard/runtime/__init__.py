"""What every run stands on: threads, cores, files, signals, progress."""
