"""``twmd spans`` and ``fit-spans``: where the errors of translations are."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import make_scorers, options_of, read_tasks
from twmd_registry.cli.output import as_json, format_table
from twmd_registry.cli.terminal import progress_bar, say
from twmd_registry.errors import SpecError, menu, visible
from twmd_registry.registry.names import MetricName

if TYPE_CHECKING:
    from twmd_registry.judgments.span_files import MarkedSegment

ALIGNING = tuple(name for name in MetricName if name not in {MetricName.STSSCORE, MetricName.ENSEMBLE})
FORMATS = ("text", "json", "mqm", "esa", "contentquo")
HELD_OUT = "Documents to measure F1 on and not to fit on, as FILE:DOC (zh-en:talk.7)."
HEADERS = ("system", "segment", "side", "from", "to", "severity", "badness", "text")
AGREEMENTS = ("data", "documents", "segments", "marked by", "F1", "precision", "recall")


@command("spans", lexical=(), example="twmd spans twmd ref.txt -i system_a.txt system_b.txt --format mqm > spans.tsv")
@declare.metric(ALIGNING)
@declare.argument("references", nargs=-1, type=declare.FILE, metavar="[REF]...")
@declare.many("-i --input", "HYP", "One file per system (default: standard input).", type=declare.INPUT)
@declare.source
@declare.output_format(*FORMATS, about="; mqm: Google's table; esa: WMT24's JSON lines; contentquo: a list of issues")
@declare.columns
@declare.settings
@declare.parts
@declare.run_options
def spans_command(arguments: Arguments) -> int:
    """Mark where errors are: words that the reference does not say, in every segment, and what the prediction misses.

    METRIC is a metric or a signature whose thresholds were fitted ('twmd fit-spans'). REF are reference files, one per
    reference stream; the one that scores highest is compared.
    """
    tasks = read_tasks(arguments)
    from twmd_registry.engine.error_spans import require_span_settings
    from twmd_registry.judgments.span_files import WRITERS, MarkedSegment

    (scorer,) = make_scorers(arguments.asked, options_of(arguments))
    part = require_span_settings(scorer.spec)
    segments: list[MarkedSegment] = []
    with progress_bar(total=sum(len(task.predictions) for task in tasks)) as progress:
        for task in tasks:
            scores = scorer.score(task.predictions, task.references, task.originals)
            alignments = zip(task.originals or repeat(""), scores.explain_all(progress), strict=False)
            segments += [
                MarkedSegment(task.name, "", str(i), source, *each.texts, *each.error_spans(part), each.score)
                for i, (source, each) in enumerate(alignments, 1)
            ]
    rater = f"{scores.signature} spans:{part.hash}"
    if arguments.format in WRITERS:
        shown = WRITERS[arguments.format](segments, rater)
    elif arguments.format == "json":
        shown = as_json({"settings": rater, "segments": segments})
    else:
        rows = [row for segment in segments for row in list_spans(segment)]
        shown = f"{format_table(HEADERS, rows, 'text')}\n{rater}"
    say(shown)
    return 0


def list_spans(segment: MarkedSegment) -> list[tuple[object, ...]]:
    """Return a row of `HEADERS` for every span of a segment."""
    sides = (("prediction", segment.prediction, segment.spans), ("reference", segment.reference, segment.missing))
    return [
        (segment.system, segment.number, side, *span[:3], f"{span.badness:.3f}", visible(text[span.start : span.end]))
        for side, text, spans in sides
        for span in spans
    ]


@command("fit-spans", lexical=(), example="twmd fit-spans twmd --data mqm.tsv --held-out mqm:talk.7")
@declare.metric(ALIGNING)
@declare.many("--data", "FILE", "Google's MQM tables, with human translations.", type=declare.INPUT, required=True)
@declare.many("--held-out", "DOC", HELD_OUT)
@declare.output("Folder of the thresholds (default: where 'twmd spans' looks for them).")
@declare.output_format(*declare.RESULT_FORMATS)
@declare.settings
@declare.run_options
def fit_spans_command(arguments: Arguments) -> int:
    """Fit what makes an error span to spans that people marked, and measure F1 beside that of a word diff."""
    from twmd_registry.engine.error_spans import SPANS, check_has_spans, find_error_spans, read_span_settings
    from twmd_registry.judgments.span_files import read_mqm

    (scorer,) = make_scorers(arguments.asked, options_of(arguments))
    check_has_spans(scorer.requested)
    stems = [path.stem for path in arguments.data]
    if same := next((stem for stem in stems if stems.count(stem) > 1), None):
        raise SpecError(f"--data: two files are called {same}: name a file once, and rename another.")
    data = [(path.stem, segment) for path in arguments.data for segment in read_mqm(path)]
    documents, segments = [f"{stem}:{segment.document}" for stem, segment in data], [segment for _, segment in data]
    if unknown := set(arguments.held_out) - set(documents):
        raise SpecError(f"--held-out: no document {min(unknown)!r}; {menu(min(unknown), sorted(set(documents)))}.")
    if set(documents) <= set(arguments.held_out):
        raise SpecError("--held-out names every document: leave some to fit on.")
    from twmd_registry.metaeval.span_agreement import differing_words, fit_spans, second_raters, span_f1
    from twmd_registry.models.fitted import save

    with progress_bar(total=len(segments)) as progress:
        scores = scorer.score(*zip(*((segment.prediction, segment.reference) for segment in segments), strict=True))
        words = [alignment.words[0] for alignment in scores.explain_all(progress)]
    used = [i for i, document in enumerate(documents) if document not in arguments.held_out]
    names = sorted({documents[i] for i in used})
    content = fit_spans(scorer.spec, [segments[i] for i in used], [words[i] for i in used], names)
    path = save(SPANS, content, arguments.output or SPANS.home)
    settings, rows = read_span_settings(path).content, list[tuple[object, ...]]()
    for about, group in (("fitted on", used), ("held out", sorted({*range(len(data))} - {*used}))):
        for stem in dict.fromkeys(data[i][0] for i in group):
            chosen = [i for i in group if data[i][0] == stem]
            rated = [segments[i] for i in chosen]
            for name, pairs in (
                (str(scorer.spec.metric), [(segments[i], find_error_spans(words[i], settings)) for i in chosen]),
                ("word diff", [(each, differing_words(each.prediction, each.reference)) for each in rated]),
                ("another person", second_raters(rated)),
            ):
                show = float if arguments.format == "json" else "{:.1f}".format
                rows.append((stem, about, len(pairs), name, *(show(100 * value) for value in span_f1(pairs))))
    say(format_table(AGREEMENTS, rows, arguments.format))
    if arguments.format == "text":
        print(f"\n{path}")
    return 0
