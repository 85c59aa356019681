"""Scoring data sets larger than a machine: files to parts and a record, or columns of a data set."""

from twmd_registry.files.tables import Columns
from twmd_registry.scale.dataset import score_dataset
from twmd_registry.scale.partitions import WorkerOptions
from twmd_registry.scale.runner import ScaleOptions, ScoredDataset, score_files

__all__ = ["Columns", "ScaleOptions", "ScoredDataset", "WorkerOptions", "score_dataset", "score_files"]
