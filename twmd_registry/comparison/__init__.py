"""Several systems side by side: columns of metrics, intervals, paired tests, and tables in every format."""
