"""Read the texts that a command's arguments name: systems with references, sources and documents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from twmd_registry.cli.arguments import Arguments
from twmd_registry.errors import FileError, SpecError
from twmd_registry.files.lines import read_nbest
from twmd_registry.files.tables import USUAL_REFERENCES, Columns, check_quoted
from twmd_registry.files.texts import STDIN, TextFile, read_file, read_references, read_sources, read_system
from twmd_registry.messages import listed, warn
from twmd_registry.record.content import InputFile
from twmd_registry.registry.references import is_missing


def columns_of(arguments: Arguments) -> Columns:
    """Return the columns with texts in tables."""
    prediction = arguments.prediction_column or Columns().prediction
    return Columns(prediction, arguments.reference_column, arguments.quoted_tsv)


class ScoringTask(NamedTuple):
    """One system with its per-segment references, sources and documents, if known."""

    name: str
    predictions: list[str]
    references: list[list[str]]
    files: list[InputFile]
    sources: list[str] | None = None
    documents: tuple[str, ...] = ()


def read_texts(paths: Sequence[Path], arguments: Arguments) -> list[str]:
    """Read all texts of files: lines, or the predictions and references of tables."""
    columns = columns_of(arguments)
    files = [read_file(path, columns, as_lines=arguments.lines) for path in paths]
    _check_columns(columns, files)
    _check_quoted(columns, files)
    systems = [read_system(file, columns) for file in files]
    return [text for texts, references in systems for text in chain(texts, *(references or []))]


def read_candidates(arguments: Arguments) -> tuple[list[list[str]], list[str] | None]:
    """Read every segment's candidates, from lists in a table or groups of lines, and its source, if known."""
    quoted, number = arguments.quoted_tsv, arguments.num_samples
    columns = Columns("candidates", quoted_tsv=quoted)
    file = read_file(arguments.input[0], columns, as_lines=arguments.lines, nbest=True)
    source_columns = Columns(quoted_tsv=quoted)
    source_file = read_file(arguments.src, source_columns, as_lines=arguments.lines) if arguments.src else None
    _check_quoted(columns, [file, source_file] if source_file else [file])
    sources = read_sources(source_file) if source_file else file.sources()
    if file.rows is not None:
        if number is not None:
            raise SpecError(f"--num-samples applies to lines of text, but {file.name} is a table: leave it out.")
        return [row.candidates() for row in file.rows], sources
    if not arguments.lines and (nbest := read_nbest(file.name, file.lines)):
        if number is not None:
            raise SpecError(f"--num-samples applies to lines of text, but {file.name} is an n-best list: leave it out.")
        return nbest, sources
    if number is None:
        raise SpecError(
            f"{file.name} has lines of text: pass --num-samples N, the number of candidates per segment, "
            "or pass a table with lists of texts in a column candidates."
        )
    if len(file.lines) % number:
        raise FileError(f"{file.name} has {len(file.lines)} lines, not a multiple of --num-samples {number}.")
    return [file.lines[start : start + number] for start in range(0, len(file.lines), number)], sources


def _check_columns(columns: Columns, files: Iterable[TextFile]) -> None:
    if columns[:2] != Columns()[:2] and all(file.rows is None for file in files):
        forms = "tables (JSON lines, CSV, TSV, Parquet)"
        raise SpecError(f"--prediction-column and --reference-column apply to {forms}, but no file is one.")


def _check_quoted(columns: Columns, files: Iterable[TextFile]) -> None:
    if columns.quoted_tsv:
        check_quoted("--quoted-tsv", [file.form for file in files])


def read_tasks(arguments: Arguments, *, join_documents: bool = False) -> list[ScoringTask]:
    """Read all systems and their references. With `join_documents`, a document's rows become one text."""
    if not arguments.references and not arguments.input and sys.stdin.isatty():
        raise SpecError("nothing to score: name reference files, and pass predictions with -i or on standard input.")
    columns = columns_of(arguments)
    read_whole = partial(_read_with_documents, columns=columns, arguments=arguments, join_documents=join_documents)
    reference_files = [read_whole(path) for path in arguments.references]
    source_file = read_whole(arguments.src) if arguments.src else None
    systems = [read_whole(path) for path in arguments.input or [STDIN]]
    if vars(arguments).get("drop_missing"):
        common = [*reference_files, *([source_file] if source_file else [])]
        missing = _rows_without_text(systems, reference_files, columns)
        systems, common = (_leave_out(missing, files) for files in (systems, common))
        reference_files, source_file = common[: len(reference_files)], common[-1] if source_file else None
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
            hint = f"leave out {arguments.references[0]}, or remove them from it"
            raise SpecError(f"{file.name} already contains references: {hint}.")
        system_sources = sources or file.sources()
        if not reference_files and file_references is None and system_sources is None:
            if columns.references and file.rows:
                file.rows[0].take(*columns.references)
            hint = "name a reference file before -i, or use a table with a column reference or references"
            columns_found = f"; it has {', '.join(map(repr, file.rows[0].values))}" if file.rows else ""
            hint += f"{columns_found} (for against=source, --src or a column source)"
            raise SpecError(f"no references for {file.name}: {hint}.")
        references = shared if reference_files else file_references or [[] for _ in predictions]
        for number, other in (
            (len(references), reference_files[0].name if reference_files else ""),
            (len(sources or predictions), source_file.name if source_file else ""),
        ):
            if number != len(predictions):
                lengths = f"{file.name} has {len(predictions)} segments but {other} has {number}"
                raise FileError(f"{lengths}: they must match line by line.")
        inputs = [("references", reference_file) for reference_file in reference_files] + [("predictions", file)]
        inputs += [("sources", source_file)] if source_file else []
        files = [InputFile(role, input_file.short_name, input_file.sha256) for role, input_file in inputs]
        is_unique = all(other.name == file.name for other in systems if other.short_name == file.short_name)
        name = file.short_name if is_unique else file.name
        documents = _same_documents(arguments, [file, *reference_files])
        tasks.append(ScoringTask(name, predictions, references, files, system_sources, documents))
    return tasks


def _rows_without_text(systems: Sequence[TextFile], references: Sequence[TextFile], columns: Columns) -> list[int]:
    """Return the rows, from 0, that lack a reference or any system's prediction; warn about them."""
    names = columns.references or USUAL_REFERENCES
    missing = set[int]()
    for file in systems:
        for i, row in enumerate(file.rows or ()):
            present = [name for name in names if name in row.values]
            if row.lacks(columns.prediction) or (present and all(map(row.lacks, present))):
                missing.add(i)
    cells = [[row.reference_cells(columns.references) for row in file.rows] for file in references if file.rows]
    if references and len(cells) == len(references):  # lines of text are never missing
        missing.update(i for i, row in enumerate(zip(*cells, strict=False)) if all(map(is_missing, chain(*row))))
    if missing:
        rows = listed(i + 1 for i in sorted(missing))
        many = f"{len(missing)} segment{'s' * (len(missing) > 1)}"
        warn(f"left out {many} of all systems, because a text is missing (counted from 1): {rows}.")
    return sorted(missing)


def _leave_out(rows: Sequence[int], files: Sequence[TextFile]) -> list[TextFile]:
    """Return the files without the given rows, counted from 0."""
    left = []
    for file in files:
        kept = [i for i in range(len(file.lines if file.rows is None else file.rows)) if i not in {*rows}]
        if not kept:
            raise FileError(f"{file.name}: nothing to score: every row lacks a text.")
        documents = tuple(file.documents[i] for i in kept) if file.documents else ()
        lines, table_rows = ([items[i] for i in kept] if items else items for items in (file.lines, file.rows))
        left.append(file._replace(lines=lines or [], rows=table_rows, documents=documents))  # type: ignore[arg-type]
    return left


def files_of(tasks: Iterable[ScoringTask]) -> tuple[InputFile, ...]:
    """Return the files of all systems, each once."""
    return tuple(dict.fromkeys(file for task in tasks for file in task.files))


def _read_with_documents(path: Path, columns: Columns, arguments: Arguments, *, join_documents: bool) -> TextFile:
    """Read a file, with every segment's document if ``--docs`` or ``--doc-column`` names it."""
    file = read_file(path, columns, as_lines=arguments.lines)
    docs, column = vars(arguments).get("docs"), vars(arguments).get("doc_column")
    if docs:
        from twmd_registry.judgments.mt_metrics_eval import read_docs

        segments = len(file.lines if file.rows is None else file.rows)
        rows = read_docs(docs, segments)
        is_unique = len(set(rows)) == len({document for _, document in rows})
        file = file._replace(documents=tuple(name if is_unique else f"{domain}/{name}" for domain, name in rows))
    elif file.rows is not None and any(column in row.values for row in file.rows):
        file = file._replace(documents=tuple(row.label(str(column)) for row in file.rows))
    return file._replace(join_documents=join_documents and bool(file.documents))


def _same_documents(arguments: Arguments, files: Sequence[TextFile]) -> tuple[str, ...]:
    """Return the documents of a system's segments; raise FileError if its files disagree."""
    column, named = vars(arguments).get("doc_column"), [file.documents for file in files if file.documents]
    named = [tuple(dict.fromkeys(documents)) if files[0].join_documents else documents for documents in named]
    if column and not named:
        for row in next((file.rows for file in files if file.rows), []):
            row.take(column)  # the error lists the columns
        raise SpecError(f"--doc-column {column} applies to tables, but no file is one: use --docs FILE.")
    if any(documents != named[0] for documents in named):
        names = f"{files[0].name} and its references have different documents in column {column}"
        raise FileError(f"{names}: they must match row by row.")
    return named[0] if named else ()
