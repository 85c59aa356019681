"""From texts to token vectors: tokenisation, running an encoder up to a layer, mean vectors of a corpus."""
