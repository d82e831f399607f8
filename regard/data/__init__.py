"""Datasets: files and generators -> examples -> batches, the first step of the data path."""
