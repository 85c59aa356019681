"""lm-evaluation-harness: our metrics for a task's ``metric_list``. Importing this package registers them."""

from twmd_registry.plugins.lm_eval.task_metrics import corpus_score, references, references_in

__all__ = ["corpus_score", "references", "references_in"]
