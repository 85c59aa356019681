"""``twmd mbr``: choose among candidates."""

from __future__ import annotations

import sys

from twmd_registry.cli import declare
from twmd_registry.cli.declare import Arguments, command
from twmd_registry.cli.inputs import read_candidates
from twmd_registry.cli.metrics import average_metrics, make_scorers, options_of, parse_metrics
from twmd_registry.cli.output import as_json
from twmd_registry.cli.terminal import progress_bar
from twmd_registry.errors import SpecError
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.paths import write_file

CANDIDATES = "The candidates of every segment; - is standard input."


@command("mbr", example="twmd mbr -i candidates.jsonl -m twmd -o chosen.txt\ntwmd mbr -i samples.txt --num-samples 64")
@declare.many("-i --input", "CANDIDATES", CANDIDATES, type=declare.INPUT, callback=declare.only_one, required=True)
@declare.source
@declare.reading
@declare.metrics((), "A metric or a signature; several are averaged (default: twmd).", default=[str(MetricName.TWMD)])
@declare.option("--num-samples", "N", "Lines of text have N consecutive candidates per segment.")
@declare.settings
@declare.output("Write the chosen candidates to FILE, and print the signature.", "FILE")
@declare.output_format("text", "json", about="; json: an object per line, with index, expected utility and signature")
@declare.flag("--utilities", "With --format json: also the utilities of all pairs.")
@declare.parts
@declare.run_options
def mbr_command(arguments: Arguments) -> int:
    """Choose among candidates without a reference: print, for every segment, the candidate that agrees best with all
    others (minimum Bayes risk).

    CANDIDATES is a table (JSON lines, CSV, TSV, Parquet) with a column candidates, a list of texts per segment; an
    n-best list (NUMBER ||| TEXT ||| ...); or, with --num-samples N, lines of text, N per segment.
    """
    requested = parse_metrics(arguments.metrics, arguments)
    if arguments.utilities and arguments.format != "json":
        raise SpecError("--utilities needs --format json.")
    if arguments.output:
        declare.check_output(arguments.output, filter(None, [*arguments.input, arguments.src]))
    lists, sources = read_candidates(arguments)
    if arguments.format == "text" and any("\n" in text for texts in lists for text in texts):
        raise SpecError("a candidate contains a line break, but --format text writes a line per segment: use json.")
    from twmd_registry.engine.mbr import mbr

    with progress_bar("candidates", total=sum(map(len, lists))) as progress:
        (utility,) = make_scorers([average_metrics(requested)], options_of(arguments))
        result = mbr(lists, utility, sources=sources, utilities=arguments.utilities, progress=progress)
    signature = str(result.signature)
    lines = [choice.candidate for choice in result.choices]
    if arguments.format == "json":
        chosen = map(vars, result.choices)
        shown = [{name: value for name, value in choice.items() if value is not None} for choice in chosen]
        lines = [as_json(fields | {"signature": signature}, indent=None) for fields in shown]
    if arguments.output:
        write_file(arguments.output, "".join(f"{line}\n" for line in lines).encode())
    else:
        print(*lines, sep="\n")
    print(f"signature: {signature}", file=sys.stdout if arguments.output else sys.stderr)
    return 0
