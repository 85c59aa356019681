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


SACREBLEU = """\
@inproceedings{post2018call,
  title     = {A Call for Clarity in Reporting {BLEU} Scores},
  author    = {Post, Matt},
  booktitle = {Proceedings of the Third Conference on Machine Translation: Research Papers},
  year      = {2018},
  pages     = {186--191},
  url       = {https://aclanthology.org/W18-6319}
}"""


def bibtex(metrics: Iterable[MetricName], *, sacrebleu: bool = False) -> str:
    """Write the BibTeX entries of some metrics' papers and of this software, each once, in the catalogue's order.

    Args:
        metrics: The metrics.
        sacrebleu: Whether SacreBLEU's is among them.
    """
    used = set(metrics)
    others = [SACREBLEU] if sacrebleu else []
    return "\n\n".join(
        [*dict.fromkeys(CATALOGUE[metric].citation for metric in CATALOGUE if metric in used), *others, SOFTWARE]
    )
