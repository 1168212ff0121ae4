"""One reader per file format. Each yields (number of the line or row from 1, values) and names what is broken.

The files are read directly, not through a data set library: the first row is there at once, and an error names the
file and the row.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from engine.contract.problems import shown
from engine.data.rejects import Rejects
from engine.errors import DataError

Values = dict[str, Any]
Numbered = Iterator[tuple[int, Values]]
#: Suffix to format; each may be followed by `.gz` or `.zst` except Parquet, which compresses by itself.
FORMATS = {".txt": "text", ".text": "text", ".md": "text", ".rst": "text", ".jsonl": "jsonl", ".ndjson": "jsonl",
           ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
COMPRESSIONS = (".gz", ".zst")
#: Rows between two reports of progress, and rows of one Parquet batch.
_BATCH = 512


def file_format(path: Path) -> str | None:
    """The format by the file's name, or None."""
    name = path.name.lower()
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    return FORMATS.get(Path(name).suffix)


class FileReader:
    """Reads one file; `share` is how much of it has been read, from 0 to 1.

    Raises DataError for a file that cannot be read at all; a row that cannot goes to `rejects`.
    """

    def __init__(self, path: Path, rejects: Rejects, block: int):
        """`block`: a text longer than this many characters is cut at paragraphs into documents of about as many."""
        self.path, self.rejects, self.block, self.share = path, rejects, block, 0.0

    def rows(self) -> Numbered:
        kind = file_format(self.path)
        try:
            if kind == "parquet":
                yield from self._parquet()
                return
            size = max(1, self.path.stat().st_size)
            with open(self.path, "rb") as raw, _decompressed(raw, self.path) as handle:
                reader: Callable[[BinaryIO, Callable[[], None]], Numbered] = getattr(self, f"_{kind}")
                yield from reader(handle, lambda: setattr(self, "share", min(1.0, raw.tell() / size)))
        except PermissionError:
            raise DataError(f"{self.path}: no permission to read it.") from None
        except (EOFError, zlib.error, OSError) as error:
            raise DataError(f"{self.path}: cannot be read: {' '.join(str(error).split())}. The file may be damaged or "
                            "only half copied.") from None

    def place(self, number: int) -> str:
        unit = {"json": "item", "parquet": "row", "text": "part"}.get(file_format(self.path) or "", "line")
        return f"{self.path}, {unit} {number:,}"

    def _jsonl(self, handle: BinaryIO, tick: Callable[[], None]) -> Numbered:
        for number, line in enumerate(handle, 1):
            if number % _BATCH == 0:
                tick()
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if not text:
                    continue
                values = json.loads(text)
            except UnicodeDecodeError as error:
                self.rejects.add(self.place(number), _not_utf8(error))
            except json.JSONDecodeError as error:
                self.rejects.add(self.place(number), f"not valid JSON ({error.msg}, column {error.colno}): {shown(text)}")
            except RecursionError:
                self.rejects.add(self.place(number), "JSON nested too deeply")
            else:
                if isinstance(values, dict):
                    yield number, values
                else:
                    self.rejects.add(self.place(number), f"not an object with named values: {shown(text)}")

    def _json(self, handle: BinaryIO, tick: Callable[[], None]) -> Numbered:
        content = handle.read()
        tick()
        try:
            data = json.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path}: {_not_utf8(error)}") from None
        except RecursionError:
            raise DataError(f"{self.path}: JSON nested too deeply.") from None
        except json.JSONDecodeError as error:
            if error.msg == "Extra data":  # JSON lines under the wrong name, as many tools write them
                yield from self._jsonl(io.BytesIO(content), lambda: None)
                return
            if not content.strip():
                return
            raise DataError(f"{self.path}, line {error.lineno:,}: not valid JSON ({error.msg}, column "
                            f"{error.colno}).") from None
        if isinstance(data, dict):
            lists = [key for key, value in data.items() if isinstance(value, list)]
            if len(lists) > 1:
                raise DataError(f"{self.path}: an object with several lists ({', '.join(lists)}): which one holds the "
                                "rows cannot be known. Write a list of objects, or JSON lines.")
            data = data[lists[0]] if lists else [data]
        if not isinstance(data, list):
            raise DataError(f"{self.path}: found {shown(data)}; expected a list of objects.")
        for number, values in enumerate(data, 1):
            if isinstance(values, dict):
                yield number, values
            else:
                self.rejects.add(self.place(number), f"not an object with named values: {shown(values)}")

    def _csv(self, handle: BinaryIO, tick: Callable[[], None], delimiter: str | None = None) -> Numbered:
        # surrogates keep the reader going past bytes that are not UTF-8, so that the row at fault can be named
        text = io.TextIOWrapper(handle, encoding="utf-8-sig", errors="surrogateescape", newline="")
        csv.field_size_limit(2**31 - 1)
        first = text.readline()
        while first and not first.strip():
            first = text.readline()
        if not first:
            return
        delimiter = delimiter or (";" if ";" in first and "," not in first else ",")
        reader = csv.reader(_chain(first, text), delimiter=delimiter)
        header = [name.strip() for name in next(reader)]
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise DataError(f"{self.path}: two columns are named {shown(twice)}. The first line must name each column.")
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                self.rejects.add(self.place(reader.line_num), f"not valid CSV ({error})")
                continue
            if reader.line_num % _BATCH == 0:
                tick()
            if not fields:
                continue
            if len(fields) != len(header):
                self.rejects.add(self.place(reader.line_num),
                                 f"{len(fields)} fields, but the first line names {len(header)} columns")
                continue
            try:
                "".join(fields).encode()
            except UnicodeEncodeError:
                self.rejects.add(self.place(reader.line_num), _NOT_UTF8)
                continue
            yield reader.line_num, dict(zip(header, fields, strict=True))

    def _tsv(self, handle: BinaryIO, tick: Callable[[], None]) -> Numbered:
        return self._csv(handle, tick, "\t")

    def _parquet(self) -> Numbered:
        import pyarrow
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(self.path) as file:
                number, total = 0, max(1, file.metadata.num_rows)
                for batch in file.iter_batches(batch_size=_BATCH):
                    self.share = number / total
                    for values in batch.to_pylist():
                        number += 1
                        yield number, values
        except pyarrow.ArrowInvalid as error:
            raise DataError(f"{self.path}: not a readable Parquet file: {' '.join(str(error).split())}") from None

    def _text(self, handle: BinaryIO, tick: Callable[[], None]) -> Numbered:
        number, paragraph, size = 0, [], 0
        for line_number, line in enumerate(handle, 1):
            try:
                text = line.decode("utf-8-sig" if line_number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                self.rejects.add(f"{self.path}, line {line_number:,}", _not_utf8(error))
                continue
            # CR LF is a way to end lines, not something to learn
            text = text[:-2] + "\n" if text.endswith("\r\n") else text
            paragraph.append(text)
            size += len(text)
            # a text without blank lines is cut at a line, one without lines not at all
            if size >= self.block and (not text.strip() or size >= 2 * self.block):
                tick()
                number += 1
                yield number, {"text": "".join(paragraph).strip("\n")}
                paragraph, size = [], 0
        if paragraph:
            yield number + 1, {"text": "".join(paragraph).strip("\n")}


_NOT_UTF8 = "not UTF-8 text. Convert the file, for instance with `iconv -f latin1 -t utf-8`"


def _not_utf8(error: UnicodeDecodeError) -> str:
    if error.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16, not UTF-8 text. Convert the file with `iconv -f utf-16 -t utf-8`"
    return f"{_NOT_UTF8} (byte 0x{error.object[error.start]:02x}, column {error.start + 1:,})"


def _chain(first: str, rest: io.TextIOWrapper) -> Iterator[str]:
    yield first
    yield from rest


def _decompressed(raw: BinaryIO, path: Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return gzip.GzipFile(fileobj=raw)
    if path.name.lower().endswith(".zst"):
        import pyarrow

        return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd"))
    return raw
