"""What users have on disk: lines of text, tables and compressed files, each read in one place."""
