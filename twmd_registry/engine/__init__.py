"""From texts to scores: `scorer` is the public face, `pipeline` knows the order of the stages."""
