"""The places of a signature's parts on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from twmd_registry.errors import SpecError
from twmd_registry.registry.spec import MetricSpec, member_specs


class Parts(NamedTuple):
    """The user's own places of the parts of a specification.

    A signature is untrusted: the names in it are looked up among the packaged parts and on the Hub, never as paths.
    Paths come from here only, and their files must have the content that the signature names.

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


class SharedParts(Parts):
    """Parts of several specifications: a part without the signed content may belong to another of them."""


def check_parts(parts: Parts, specs: Iterable[MetricSpec]) -> None:
    """Refuse a part that no signed specification has: it would change nothing, and look as if it did.

    Raises:
        SpecError: There is such a part; the message names it.
    """
    known = set[str]()
    for spec in specs:
        for one in [spec, *(member for _, member in member_specs(spec))] if spec.members else [spec]:
            named = {
                "model": one.model,
                "adapter": one.adapter,
                "background": one.background,
                "stopwords": one.stopwords,
            }
            known |= {name for name, value in {**named, "idf": one.idf_file, "baseline": one.baseline}.items() if value}
    for name, value in parts._asdict().items():
        if value is not None and name not in known:
            raise SpecError(
                f"{name}={value!r} has no place here: the signature names no {name} that could be looked for; "
                "what it says is fixed."
            )
