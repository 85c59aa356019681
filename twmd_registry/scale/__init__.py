"""Score data sets that are too large for one machine, on Ray Data."""

from twmd_registry.files.tables import Columns
from twmd_registry.record.dataset import ScoredDataset
from twmd_registry.scale.dataset import score_dataset
from twmd_registry.scale.runner import score_files

__all__ = ["Columns", "ScoredDataset", "score_dataset", "score_files"]
