"""Models on this machine: finding their files, naming their content, loading them safely, running them in batches."""
