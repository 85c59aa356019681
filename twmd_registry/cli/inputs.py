"""Read what the arguments of a command name: run options, columns, metrics, texts.

Imports nothing heavy, so that a wrong command line is refused at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twmd_registry.cli.arguments import Arguments
from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.compressed import read_whole, unpack
from twmd_registry.files.lines import check_lines, decode, digest_of_file, read_nbest, split_lines
from twmd_registry.files.tables import (
    USUAL_REFERENCES,
    Columns,
    TableRow,
    check_present,
    check_quoted,
    detect_form,
    read_array_of_texts,
    read_rows,
)
from twmd_registry.messages import menu, name_rows, warn
from twmd_registry.record.content import InputFile
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.members import merge_members, split_name, write_members
from twmd_registry.registry.metrics import entry
from twmd_registry.registry.names import LEXICAL_NAMES, MetricName
from twmd_registry.registry.options import OPTION_NAMES, PART_NAMES, LocalFiles, RunOptions, resolve_local_files
from twmd_registry.registry.references import is_blank, is_missing, present_references
from twmd_registry.registry.signature import parse_signature
from twmd_registry.registry.spec import MetricSpec, make_spec, spec_with_keys

if TYPE_CHECKING:
    from twmd_registry.engine.scorer import Scorer


class RequestedMetric(NamedTuple):
    """A metric as the command line names it: `spec` is None for SacreBLEU's, `parts` and `nrefs` are of a signature."""

    name: str
    spec: MetricSpec | None = None
    parts: LocalFiles | None = None
    nrefs: str | None = None


def options_of(arguments: Arguments) -> RunOptions:
    """Return the run options of a command line."""
    given = vars(arguments)
    return RunOptions(**{name: given[name] for name in OPTION_NAMES if name in given})


def parts_of(arguments: Arguments) -> LocalFiles:
    """Return the paths of ``--part``; raises SpecError if one is not NAME=PATH, or signatures have no such part."""
    given = {}
    for text in vars(arguments).get("part", ()):
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise SpecError(f"--part {text!r}: expected NAME=PATH.")
        if name not in PART_NAMES:
            raise SpecError(f"--part {name}: signatures have no such part; {menu(name, PART_NAMES)}.")
        given[name] = path
    return LocalFiles(**given)


def columns_of(arguments: Arguments) -> Columns:
    """Return the columns of texts in tables."""
    prediction = arguments.prediction_column or Columns().prediction
    return Columns(prediction, arguments.reference_column, arguments.quoted_tsv)


def parse_metrics(names: Sequence[str], arguments: Arguments, lexical: Sequence[str] = ()) -> list[RequestedMetric]:
    """Read metrics; those with keys of their own and signatures get neither ``--preset`` nor ``--set``."""
    parts = parts_of(arguments)
    ours = [name for name in names if name not in lexical]
    signed = [name for name in ours if "|" in name]
    unchanged = [name for name in ours if "|" in name or _has_keys(name)]
    named = [split_name(name)[0] for name in ours if name not in unchanged]
    for name in named:
        if name not in {*MetricName, *lexical}:
            hint = " -m takes every word after it, so name files before -m." if _is_path(name) else ""
            joined = [word for word in re.split(r"[\s,+]+", name) if word]
            if len(joined) > 1 and {split_name(word)[0] for word in joined} <= {*MetricName, *LEXICAL_NAMES}:
                hint = f" Separate metrics by blanks, each a word of its own: -m {' '.join(joined)}."
            raise SpecError(f"there is no metric {name!r}; {menu(name, [*MetricName, *lexical])}.{hint}")
    given = _parse_set_keys(arguments, named, unchanged)
    if not signed and any(getattr(parts, name) for name in PART_NAMES):
        raise SpecError("--part says where a part of a signature is, and no signature is given: use --set KEY=VALUE.")
    parts = resolve_local_files(parts, [parse_signature(name).spec for name in signed])
    requested = dict[MetricSpec | str, RequestedMetric]()
    for name in names:
        metric = _request(name, given, arguments.preset, parts) if name in ours else RequestedMetric(name)
        other = requested.setdefault(metric.spec or name, metric)
        if other is not metric:
            raise SpecError(f"{name} and {other.name} are the same metric with the same settings: name it once.")
    return list(requested.values())


def _has_keys(name: str) -> bool:
    """Return whether a metric is written with keys of its own; those of an ensemble are its members'."""
    return ";" in name and "(" not in name


def _is_path(word: str) -> bool:
    """Return whether a word is the name of a file, or looks like it."""
    return "/" in word or Path(word).suffix[1:].isalpha()


def _parse_set_keys(arguments: Arguments, named: Sequence[str], unchanged: Sequence[str]) -> dict[str, str]:
    """Read ``--set`` and check its keys; warn of named metrics without a key, and of metrics that are `unchanged`."""
    given = parse_assignments(arguments.set)
    if not named and (given or arguments.preset):
        alone = "a signature says everything, and SacreBLEU's metrics have no keys here"
        raise SpecError(f"--set and --preset are for a metric that -m names without keys of its own: {alone}.")
    used = {key for metric in named for key in entry(metric).keys}
    for name in given:
        if name not in used:
            choices = menu(name, [key for key in KEYS if key in used])
            raise SpecError(f"--set {name}: no key {name!r} of {', '.join(named)}; {choices}.")
        if without := ", ".join(metric for metric in dict.fromkeys(named) if name not in entry(metric).keys):
            warn(f"--set {name}: no key of {without}; scored without it.")
    if (given or arguments.preset) and unchanged:
        warn(f"--set and --preset change no signatures and no metrics with keys of their own: {', '.join(unchanged)}.")
    return given


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Return the keys and values of ``--set``; raises SpecError for a word that is not KEY=VALUE."""
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            hint = " --set takes every word after it, so name files before it." if _is_path(text) else ""
            raise SpecError(f"--set {text!r}: expected KEY=VALUE.{hint}")
        if (joined := re.search(r"[,\s]\s*(\w+)=", value)) and joined[1] in KEYS:
            words = " ".join(re.split(r"[,\s]+(?=\w+=)", text))
            raise SpecError(f"--set {text!r}: separate keys by blanks, each a word of its own: --set {words}.")
        given[name] = value
    return given


def parse_keys(arguments: Arguments, names: Sequence[str]) -> dict[str, str]:
    """Return the keys of ``--set`` for a command that reads some keys only; raises SpecError for another."""
    given = parse_assignments(arguments.set)
    for name in given:
        if name not in names:
            raise SpecError(f"--set {name}: this command reads no such key; {menu(name, names)}.")
    return given


def _request(name: str, given: dict[str, str], preset: str | None, parts: LocalFiles) -> RequestedMetric:
    if "|" in name:
        signature = parse_signature(name)
        return RequestedMetric(name, signature.spec, parts, signature.nrefs)
    if _has_keys(name):
        return RequestedMetric(name, spec_with_keys(name))
    allowed = entry(split_name(name)[0]).keys
    metric, keys = merge_members(name, {key: value for key, value in given.items() if key in allowed})
    return RequestedMetric(name, make_spec(metric, preset, **keys))


def average_metrics(requested: Sequence[RequestedMetric]) -> RequestedMetric:
    """Return the ensemble of several metrics, with equal weights; a single metric as it is."""
    members = write_members((1.0, metric.spec) for metric in requested if metric.spec)
    ensemble = RequestedMetric("ensemble", MetricSpec(metric=MetricName.ENSEMBLE, members=members), requested[0].parts)
    return ensemble if len(requested) > 1 else requested[0]


def make_scorers(requested: Iterable[RequestedMetric], options: RunOptions) -> list[Scorer]:
    """Make a scorer of each metric that is not SacreBLEU's; imports torch only if there is such a metric."""
    wanted = [(metric.spec, metric.parts, metric.nrefs) for metric in requested if metric.spec is not None]
    if not wanted:
        return []
    from twmd_registry.engine.scorer import Scorer

    return [Scorer(spec, options, parts, nrefs) for spec, parts, nrefs in wanted]


STDIN = Path("-")


class TextFile(NamedTuple):
    """A file that was read: lines of text, or a table, whose rows are not None; `documents` are those of its rows, if
    known, and with `join_documents` a segment is a document, and its rows are lines of one text. `form` is the suffix
    of a table's form.
    """

    name: str
    sha256: str
    lines: list[str]
    rows: list[TableRow] | None
    documents: tuple[str, ...] = ()
    join_documents: bool = False
    form: str | None = None

    @property
    def short_name(self) -> str:
        """Its name without its folder: what is published says nothing of a user's disk."""
        return Path(self.name).name

    def segments(self, rows: Iterable[Sequence[str | None]]) -> list[Sequence[str | None]]:
        """Return the texts of every segment from those of every row, as many of each; an absent text joins as blank."""
        if not self.join_documents:
            return [*rows]
        groups = dict[str, list[Sequence[str | None]]]()
        for document, texts in zip(self.documents, rows, strict=True):
            groups.setdefault(document, []).append(texts)
        for document, document_rows in groups.items():
            if len(set(map(len, document_rows))) > 1:
                raise FileError(f"{self.name}: the rows of document {document} have different numbers of references.")
        return [
            ["\n".join(text or "" for text in texts) for texts in zip(*rows, strict=True)] for rows in groups.values()
        ]

    def texts(self, rows: Iterable[str]) -> list[str]:
        """Return the text of every segment from that of every row."""
        return [texts[0] or "" for texts in self.segments([text] for text in rows)]

    def sources(self) -> list[str] | None:
        """Return the texts of the column ``source``, empty where a row has none; None if no row has a text there."""
        texts = [row.values.get("source") for row in self.rows or []]
        if not any(isinstance(text, str) for text in texts):
            return None
        return self.texts(text if isinstance(text, str) else "" for text in texts)


class ScoringTask(NamedTuple):
    """One system with its references, sources and documents, by segment, if known."""

    name: str
    predictions: list[str]
    references: list[list[str]]
    files: list[InputFile]
    sources: list[str] | None = None
    documents: tuple[str, ...] = ()


def read_file(path: Path, columns: Columns, *, as_lines: bool = False, nbest: bool = False) -> TextFile:
    """Read a file, or standard input by ``-``; its name or content shows whether it is a table, but `as_lines` takes
    any content for lines of text. With `nbest`, an n-best list is not refused.
    """
    name = "standard input" if path == STDIN else str(path)
    packed = read_whole(name, lambda: nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb"))
    content, sha256 = unpack(name, packed), digest_of_file(packed)
    if not content:
        hint = " Give predictions there, or by -i (twmd score -i FILE.jsonl, if one file holds all)."
        raise FileError(f"{name} is empty.{hint if path == STDIN else ''}")
    # With the usual columns, too: a table without the columns that were asked for is an error, not lines of text.
    names = (*columns.wanted, *Columns().wanted)
    form = None if as_lines else detect_form(name, content, names, quoted_tsv=columns.quoted_tsv)
    if form is None:
        lines = split_lines(decode(name, content))
        if not as_lines and not (nbest and read_nbest(name, lines)):
            check_lines(name, lines, " If each of its lines is one text, say so by --lines.")
        return TextFile(name, sha256, lines, None)
    if form == ".json" and (texts := read_array_of_texts(name, content)):
        lines = [text for text in texts if text is not None]
        if len(lines) == len(texts):
            return TextFile(name, sha256, lines, None)
        values = ({columns.prediction: text, "reference": text} for text in texts)
        return TextFile(name, sha256, [], [TableRow(f"{name}, item {i}", own, i) for i, own in enumerate(values, 1)])
    rows = read_rows(name, content, form, quoted_tsv=columns.quoted_tsv)
    if not rows:
        raise FileError(f"{name}: there is no row under the header.")
    return TextFile(name, sha256, [], rows, form=form)


def read_system(file: TextFile, columns: Columns) -> tuple[list[str], list[list[str]] | None]:
    """Return the predictions of a system's output and, if it is a table that has them, its references."""
    if file.rows is None:
        return file.texts(file.lines), None
    check_present(file.rows, columns.prediction)
    predictions = file.texts(row.text(columns.prediction) for row in file.rows)
    names = columns.references or USUAL_REFERENCES
    if not any(name in row.values for row in file.rows for name in names):
        return predictions, None
    cells = file.segments(row.reference_cells(columns.references) for row in file.rows)
    return predictions, [present_references(texts) for texts in cells]


def read_references(files: Sequence[TextFile], columns: Columns) -> list[list[str]]:
    """Return the references of every segment: files of text are streams side by side; a table's row holds its own."""
    streams: list[list[Sequence[str | None]]] = []
    for file in files:
        rows: Iterable[Sequence[str | None]] = ([line] for line in file.lines)
        if file.rows is not None:
            rows = [row.reference_cells(columns.references) for row in file.rows]
        streams.append(file.segments(rows))
        if len(streams[-1]) != len(streams[0]):
            lengths = f"{file.name} has {len(streams[-1])} lines but {files[0].name} has {len(streams[0])}"
            raise FileError(f"{lengths}: reference files must match line by line.")
    return [present_references(chain.from_iterable(segment)) for segment in zip(*streams, strict=True)]


def read_texts(paths: Sequence[Path], arguments: Arguments) -> list[str]:
    """Read every text of some files, in whatever role: lines, or the predictions and references of tables."""
    columns = columns_of(arguments)
    files = [read_file(path, columns, as_lines=arguments.lines) for path in paths]
    _check_columns(columns, files)
    _check_quoted(columns, files)
    systems = [read_system(file, columns) for file in files]
    return [text for texts, references in systems for text in chain(texts, *(references or []))]


def read_sources(file: TextFile) -> list[str]:
    """Return the texts of a file of ``--src``: lines, or the column ``source`` of a table."""
    if not (texts := file.sources() or file.texts(file.lines)):
        raise FileError(f"{file.name}: there is no text in a column source.")
    if empty := [str(i) for i, text in enumerate(texts, 1) if is_blank(text)]:
        warn(f"{file.name} has no text for {len(empty)} of its rows, the first of them row {empty[0]}.")
    return texts


def read_candidates(arguments: Arguments) -> tuple[list[list[str]], list[str] | None]:
    """Read the candidates of every segment, lists in a table or so many lines of text; and their sources, if known."""
    quoted, number = arguments.quoted_tsv, arguments.num_samples
    columns = Columns("candidates", quoted_tsv=quoted)
    file = read_file(arguments.input[0], columns, as_lines=arguments.lines, nbest=True)
    src = Columns(quoted_tsv=quoted)
    given = read_file(arguments.src, src, as_lines=arguments.lines) if arguments.src else None
    _check_quoted(columns, [file, given] if given else [file])
    sources = read_sources(given) if given else file.sources()
    if file.rows is not None:
        if number is not None:
            raise SpecError(f"--num-samples is for lines of text, and {file.name} is a table: leave it out.")
        return [row.candidates() for row in file.rows], sources
    if not arguments.lines and (nbest := read_nbest(file.name, file.lines)):
        if number is not None:
            raise SpecError(f"--num-samples is for lines of text, and {file.name} is an n-best list: leave it out.")
        return nbest, sources
    if number is None:
        hint = "say how many belong to a segment by --num-samples N, or give JSON lines with a column candidates"
        raise SpecError(f"{file.name} has lines of text: {hint}.")
    if len(file.lines) % number:
        raise FileError(f"{file.name} has {len(file.lines)} lines, which is no multiple of --num-samples {number}.")
    return [file.lines[start : start + number] for start in range(0, len(file.lines), number)], sources


def _check_columns(columns: Columns, files: Iterable[TextFile]) -> None:
    if columns[:2] != Columns()[:2] and all(file.rows is None for file in files):
        forms = "tables (JSON lines, CSV, TSV, Parquet)"
        raise SpecError(f"--prediction-column and --reference-column are for {forms}, and no file is one.")


def _check_quoted(columns: Columns, files: Iterable[TextFile]) -> None:
    if columns.quoted_tsv:
        check_quoted("--quoted-tsv", [file.form for file in files])


def read_tasks(arguments: Arguments, *, join_documents: bool = False) -> list[ScoringTask]:
    """Read all systems and their references; with `join_documents`, the rows of a document become one text."""
    if not arguments.references and not arguments.input and sys.stdin.isatty():
        raise SpecError("nothing to score: name reference files, and predictions by -i or on standard input.")
    columns = columns_of(arguments)
    read_whole = partial(_read_with_documents, columns=columns, arguments=arguments, join_documents=join_documents)
    reference_files = [read_whole(path) for path in arguments.references]
    source_file = read_whole(arguments.src) if arguments.src else None
    systems = [read_whole(path) for path in arguments.input or [STDIN]]
    if vars(arguments).get("drop_missing"):
        beside = [*reference_files, *([source_file] if source_file else [])]
        missing = _rows_without_text(systems, reference_files, columns)
        systems, beside = (_leave_out(missing, files) for files in (systems, beside))
        reference_files, source_file = beside[: len(reference_files)], beside[-1] if source_file else None
    shared = read_references(reference_files, columns)
    if source_file:
        sources: list[str] | None = read_sources(source_file)
    else:
        named = (file.sources() for file in reference_files)
        sources = next((texts for texts in named if texts is not None), None)
    read = [read_system(file, columns) for file in systems]
    _check_columns(columns, [*systems, *reference_files])
    _check_quoted(columns, filter(None, [*systems, *reference_files, source_file]))
    tasks = []
    for file, (predictions, file_references) in zip(systems, read, strict=True):
        if reference_files and file_references is not None:
            again = f"leave {arguments.references[0]} out, or take them out of it"
            raise SpecError(f"{file.name} holds references already: {again}.")
        system_sources = sources or file.sources()
        if not reference_files and file_references is None and system_sources is None:
            hint = "name a reference file before -i, or give a table with a column reference or references"
            raise SpecError(f"no references for {file.name}: {hint} (for against=source, --src or a column source).")
        references = shared if reference_files else file_references or [[] for _ in predictions]
        if len(references) != len(predictions):
            lengths = f"{file.name} has {len(predictions)} segments but {reference_files[0].name} has {len(references)}"
            raise FileError(f"{lengths}: they must match line by line.")
        inputs = [("references", one) for one in reference_files] + [("predictions", file)]
        inputs += [("sources", source_file)] if source_file else []
        files = [InputFile(role, each.short_name, each.sha256) for role, each in inputs]
        is_unique = all(other.name == file.name for other in systems if other.short_name == file.short_name)
        name = file.short_name if is_unique else file.name
        documents = _same_documents(arguments, [file, *reference_files])
        tasks.append(ScoringTask(name, predictions, references, files, system_sources, documents))
    return tasks


def _rows_without_text(systems: Sequence[TextFile], references: Sequence[TextFile], columns: Columns) -> list[int]:
    """Return the rows, counted from 0, in which a system has no prediction, or no reference is there; warn of them."""
    names = columns.references or USUAL_REFERENCES
    missing = set[int]()
    for file in systems:
        for i, row in enumerate(file.rows or ()):
            own = [name for name in names if name in row.values]
            if row.lacks(columns.prediction) or (own and all(map(row.lacks, own))):
                missing.add(i)
    cells = [[row.reference_cells(columns.references) for row in file.rows] for file in references if file.rows]
    if references and len(cells) == len(references):  # lines of text are never absent
        missing.update(i for i, row in enumerate(zip(*cells, strict=False)) if all(map(is_missing, chain(*row))))
    if missing:
        rows = name_rows(i + 1 for i in sorted(missing))
        warn(f"left out {len(missing)} segments of all systems, which lack a text, counted from 1: {rows}.")
    return sorted(missing)


def _leave_out(rows: Sequence[int], files: Sequence[TextFile]) -> list[TextFile]:
    """Return the files without some rows, counted from 0."""
    left = []
    for file in files:
        kept = [i for i in range(len(file.lines if file.rows is None else file.rows)) if i not in {*rows}]
        if not kept:
            raise FileError(f"{file.name}: there is nothing to score: each of its rows lacks a text.")
        documents = tuple(file.documents[i] for i in kept) if file.documents else ()
        lines, of_table = ([items[i] for i in kept] if items else items for items in (file.lines, file.rows))
        left.append(file._replace(lines=lines or [], rows=of_table, documents=documents))  # type: ignore[arg-type]
    return left


def files_of(tasks: Iterable[ScoringTask]) -> tuple[InputFile, ...]:
    """Return the files of all systems, each once."""
    return tuple(dict.fromkeys(file for task in tasks for file in task.files))


def _read_with_documents(path: Path, columns: Columns, arguments: Arguments, *, join_documents: bool) -> TextFile:
    """Read a file, and the document of every segment where ``--docs`` or ``--doc-column`` names it."""
    file = read_file(path, columns, as_lines=arguments.lines)
    docs, column = vars(arguments).get("docs"), vars(arguments).get("doc_column")
    if docs:
        from twmd_registry.judgments.mt_metrics_eval import read_docs

        segments = len(file.lines if file.rows is None else file.rows)
        file = file._replace(documents=tuple(document for _, document in read_docs(docs, segments)))
    elif file.rows is not None and any(column in row.values for row in file.rows):
        file = file._replace(documents=tuple(row.label(str(column)) for row in file.rows))
    return file._replace(join_documents=join_documents and bool(file.documents))


def _same_documents(arguments: Arguments, files: Sequence[TextFile]) -> tuple[str, ...]:
    """Return the documents of a system's segments; raise FileError where its files name others."""
    column, named = vars(arguments).get("doc_column"), [file.documents for file in files if file.documents]
    named = [tuple(dict.fromkeys(documents)) if files[0].join_documents else documents for documents in named]
    if column and not named:
        for row in next((file.rows for file in files if file.rows), []):
            row.take(column)  # names the columns that are there
        raise SpecError(f"--doc-column {column} is for tables, and no file is one: name a file by --docs.")
    if any(documents != named[0] for documents in named):
        names = f"{files[0].name} and its references have other documents in the column {column}"
        raise FileError(f"{names}: they must match row by row.")
    return named[0] if named else ()
