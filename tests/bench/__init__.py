"""``make bench``: speed and memory beside other programs, all in one run on the same texts. Not a test."""
