"""From texts to scores.

The path of a score, file by file:

1. `scorer`: `load` reads metric, preset and keys into a specification; `Scorer.score` takes the texts.
2. `pairs`: `check_segments` checks every row. `make_pairs` numbers the distinct texts and pairs each prediction, from
   here on the *hypothesis*, with its references, or with its source (``against=source``), which then replaces the
   reference.
3. `scorer.score_segments`: warns about the texts (`input_warnings`), and groups the scorers that share pairs and a
   model. `score_pairs` scores the pairs of a group; `Hooks` name what a distributed run (`distributed`), a service
   (`shared_passes`) and Ray's actors do differently.
4. `backend`: finds and loads the model, and completes the requested specification. `pair_backends` score pairs by
   regression models and sentence vectors; `token_backend` continues with 5.
5. `pipeline`: encode (`encode.store`), center and form units (`token_vectors`, `aggregation`; `sentences` for
   documents), align x with y (`align`), reduce both sides to precision, recall and F1. Chunk by chunk.
6. `scorer`: rescale by the `baseline`, reduce several references, and return a `result.ScoreSet`. An ensemble, and
   ``against=both``, average the sets of their members. `ScoreSet.explain` repeats 5 for one pair (`alignment`).

Off this path, `mbr` chooses among candidates by their scores.
"""
