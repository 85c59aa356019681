"""Local models: finding their files, naming their content, loading them safely, running them in batches."""
