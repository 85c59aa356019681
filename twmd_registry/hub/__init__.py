"""What goes to the Hugging Face Hub: the metrics' cards and the Spaces they belong to."""
