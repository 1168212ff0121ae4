"""A look at the first rows of a data file, without reading a large one whole."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from wizard.errors import InvalidError

#: Rows that lengths are measured on.
SAMPLE_ROWS = 500
#: Bytes of a file that the sample may come from.
_SAMPLE_BYTES = 8_000_000
#: Files up to this size have their rows counted; at disk speed that takes well under a second.
_COUNT_BYTES = 200_000_000
_FORMATS = {
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".rst": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}


@dataclass
class Sample:
    """First rows of one file. `total` is None where counting would have meant reading it whole."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    total: int | None = None
    bad: int = 0


def format_of(path: Path) -> str | None:
    """text | jsonl | json | csv | tsv | parquet by the file's name, seen through `.gz` and `.zst`; else None."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    return _FORMATS.get(Path(name).suffix)


def sample_file(path: Path) -> Sample:
    """The first rows of `path`. Raises InvalidError when it cannot be read or is not what its name says."""
    kind = format_of(path)
    try:
        if kind == "parquet":
            return _parquet(path)
        compressed = path.name.lower().endswith((".gz", ".zst"))
        with _open(path) as handle:
            head = handle.read(_SAMPLE_BYTES)
            whole = len(head) < _SAMPLE_BYTES
            small = not compressed and path.stat().st_size <= _COUNT_BYTES
            if kind == "json":
                return _json(path, head, whole)
            if kind == "jsonl":
                return _jsonl(head, whole, handle if small else None)
            if kind in ("csv", "tsv"):
                return _csv(path, head, whole, "\t" if kind == "tsv" else None, handle if small else None)
            text = head.decode("utf-8-sig", "replace")
            return Sample([{"text": text}] if text.strip() else [], ["text"], None)
    except PermissionError:
        raise InvalidError(
            f"{path}: no permission to read it", "change the permission, or choose another file"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidError(
            f"{path}: cannot be read ({' '.join(str(error).split())})", "the file may be damaged or half copied"
        ) from None


def _open(path: Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rb")
    if path.name.lower().endswith(".zst"):
        import pyarrow

        return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd"))
    return open(path, "rb")


def _jsonl(head: bytes, whole: bool, rest: BinaryIO | None) -> Sample:
    lines = head.split(b"\n")
    if not whole:
        lines.pop()  # cut in the middle
    sample = Sample()
    for line in lines:
        if not line.strip():
            continue
        if len(sample.rows) >= SAMPLE_ROWS:
            break
        try:
            row = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            sample.bad += 1
            continue
        if isinstance(row, dict):
            sample.rows.append(row)
        else:
            sample.bad += 1
    sample.columns = list(dict.fromkeys(key for row in sample.rows for key in row))
    if whole:
        sample.total = sum(bool(line.strip()) for line in lines)
    elif rest is not None:
        sample.total = head.count(b"\n") + _count_lines(rest)
    return sample


def _count_lines(handle: BinaryIO) -> int:
    total, last = 0, b"\n"
    while block := handle.read(1 << 20):
        total += block.count(b"\n")
        last = block[-1:]
    return total + (last != b"\n")


def _json(path: Path, head: bytes, whole: bool) -> Sample:
    if whole:
        try:
            data = json.loads(head.decode("utf-8-sig")) if head.strip() else []
        except json.JSONDecodeError as error:
            if error.msg == "Extra data":  # JSON lines under another name
                return _jsonl(head, True, None)
            raise InvalidError(
                f"{path}, line {error.lineno}: not valid JSON ({error.msg})", "mend the file, or write JSON lines"
            ) from None
        except (UnicodeDecodeError, RecursionError):
            raise InvalidError(f"{path}: not readable JSON text in UTF-8", "convert the file to UTF-8") from None
        if isinstance(data, dict):
            data = next((value for value in data.values() if isinstance(value, list)), [data])
        rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
        total = len(data) if isinstance(data, list) else 0
        return Sample(rows[:SAMPLE_ROWS], list(dict.fromkeys(key for row in rows[:SAMPLE_ROWS] for key in row)), total)
    # a large array: decode object after object from the start
    text = head.decode("utf-8-sig", "ignore")
    if text.lstrip()[:1] == "{":
        first = text.lstrip().split("\n", 1)[0]
        try:
            json.loads(first)
        except ValueError:
            pass
        else:
            return _jsonl(head, False, None)
    decoder, at, rows = json.JSONDecoder(), text.find("[") + 1, []
    while at and len(rows) < SAMPLE_ROWS:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            row, at = decoder.raw_decode(text, at)
        except ValueError:
            break
        if isinstance(row, dict):
            rows.append(row)
    return Sample(rows, list(dict.fromkeys(key for row in rows for key in row)), None)


def _csv(path: Path, head: bytes, whole: bool, delimiter: str | None, rest: BinaryIO | None) -> Sample:
    text = head.decode("utf-8-sig", "replace")
    if not whole:
        text = text[: text.rfind("\n") + 1]
    text = text.lstrip("\r\n")
    first = text.split("\n", 1)[0]
    delimiter = delimiter or (";" if ";" in first and "," not in first else ",")
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    sample = Sample()
    try:
        sample.columns = [name.strip() for name in next(reader, [])]
        count = 0
        for fields in reader:
            if not fields:
                continue
            count += 1
            if len(sample.rows) < SAMPLE_ROWS and len(fields) == len(sample.columns):
                sample.rows.append(dict(zip(sample.columns, fields, strict=True)))
            elif len(fields) != len(sample.columns):
                sample.bad += 1
    except csv.Error as error:
        raise InvalidError(
            f"{path}, line {reader.line_num}: not valid CSV ({error})", "mend the line, or export the table again"
        ) from None
    if whole:
        sample.total = count
    # quoted fields may hold line ends, so lines of a large file are no count of its rows
    return sample


def _parquet(path: Path) -> Sample:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            batch = next(file.iter_batches(batch_size=SAMPLE_ROWS), None)
            rows = batch.to_pylist() if batch is not None else []
            return Sample(rows, list(file.schema_arrow.names), file.metadata.num_rows)
    except pyarrow.ArrowInvalid as error:
        raise InvalidError(
            f"{path}: not a readable Parquet file ({' '.join(str(error).split())})",
            "the file may be damaged or half copied",
        ) from None
