"""MLflow: a metric as a scorer of ``mlflow.genai.evaluate`` and as a metric of ``mlflow.models.evaluate``."""
