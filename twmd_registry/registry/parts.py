"""Where the parts of a signature are on this machine."""

from __future__ import annotations

from typing import NamedTuple


class Parts(NamedTuple):
    """What a user says about a specification that somebody else wrote.

    A signature is a stranger's word: the names in it are looked up among the packaged parts and on the Hub, never as
    paths. Paths come from here only, and what they lead to must have the content that the signature says.

    Attributes:
        model: A folder or Hub id.
        adapter: A folder or Hub id.
        background: A mean-vector file.
        stopwords: A file of stop words.
        idf: A file of document frequencies.
        baseline: A file of baselines.
    """

    model: str | None = None
    adapter: str | None = None
    background: str | None = None
    stopwords: str | None = None
    idf: str | None = None
    baseline: str | None = None
