"""Devices, threads, processes, files, signals and progress, for all other folders."""
