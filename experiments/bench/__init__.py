"""Speed, memory and load of several programs in one run on the same texts: ``python -m experiments bench NAME``."""
