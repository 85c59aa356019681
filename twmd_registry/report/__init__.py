"""Reports and pictures of scores."""
