"""Score data sets that are too large for one machine, on Ray Data."""

from twmd_registry.files.tables import Columns
from twmd_registry.scale.dataset import score_dataset
from twmd_registry.scale.runner import ScoredDataset, score_files

__all__ = ["Columns", "ScoredDataset", "score_dataset", "score_files"]
