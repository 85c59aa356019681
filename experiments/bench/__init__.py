"""Speed, memory and load beside other programs, in one run on the same texts: ``python -m experiments bench NAME``."""
