"""Scoring data sets larger than one machine, on Ray Data: files in, Parquet parts and one record out."""
