"""BibTeX of the metrics' papers and of this software. Imports nothing heavy: a Hub card is written without a model."""

from __future__ import annotations

from collections.abc import Iterable

from twmd_registry.registry.catalogue import CATALOGUE
from twmd_registry.registry.names import MetricName
from twmd_registry.version import __version__

SOFTWARE = f"""\
@software{{twmd_registry,
  title   = {{twmd-registry: embedding metrics for generated text, with signatures that anybody can re-run}},
  author  = {{{{the twmd-registry authors}}}},
  version = {{{__version__}}}
}}"""


def bibtex(metrics: Iterable[MetricName]) -> str:
    """Write the BibTeX entries of some metrics' papers and of this software, each once, in the catalogue's order.

    Args:
        metrics: The metrics.
    """
    used = set(metrics)
    return "\n\n".join([*dict.fromkeys(CATALOGUE[metric].citation for metric in CATALOGUE if metric in used), SOFTWARE])
