"""Scoring data sets larger than one machine: files in, Parquet parts and one record out, or columns of a pipeline's data set."""

from twmd_registry.judgments.fields import Columns
from twmd_registry.scale.dataset import score_dataset
from twmd_registry.scale.engine import Manner, score_files
from twmd_registry.scale.record import ScoredDataset
from twmd_registry.scale.workers import Workers

__all__ = ["Columns", "Manner", "ScoredDataset", "Workers", "score_dataset", "score_files"]
