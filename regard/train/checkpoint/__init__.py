"""Checkpoints: folders that notice any changed byte."""
