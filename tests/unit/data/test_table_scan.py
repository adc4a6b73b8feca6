"""Rows, lines and ids of text files agree with Python's csv module and with a plain search."""

from __future__ import annotations

import csv
import io
from unittest.mock import patch

import hypothesis
import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest

from tgnn.data.tables import ids, text_file
from tgnn.data.tables.text_file import TextLayout, scan
from tgnn.data.validation.report import DataError, ValidationReport

CELLS = st.text(st.sampled_from('ab1 ,;"\né'), max_size=6)


def layout_of(content: bytes, chunk: int) -> tuple[TextLayout, ValidationReport]:
    report = ValidationReport("", "")
    with patch.multiple(text_file, _CHUNK=chunk, _LARGE_CHUNK=chunk):
        return scan(np.frombuffer(content, dtype=np.uint8), "file.csv", report), report


@hypothesis.given(
    rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8),
    chunk=st.integers(14, 40),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
@hypothesis.settings(deadline=None)
def test_rows_and_lines_are_those_of_the_csv_module(rows, chunk, end, last):
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=end).writerows([["first", "second"], *rows])
    content = file.getvalue() if last or not rows else file.getvalue().removesuffix(end)
    reader = csv.reader(io.StringIO(content, newline=""))
    starts = [1, *(reader.line_num + 1 for _ in reader)][:-1]
    layout, _ = layout_of(content.encode(), chunk)
    assert layout.rows == len(starts)
    assert layout.lines(np.arange(layout.rows)).tolist() == starts
    assert layout.spaces == (" " in content)


@hypothesis.given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12), wanted=st.integers(2, 4), chunk=st.integers(9, 30)
)
@hypothesis.settings(deadline=None)
def test_every_row_with_another_number_of_fields_is_found(counts, wanted, chunk):
    lines = [",".join(["name"] * n) for n in counts]
    content = "\n".join([",".join("abcd"[:wanted]), *lines]).encode()
    wrong = [i + 2 for i, n in enumerate(counts) if n != wanted]
    if not wrong:
        assert layout_of(content, chunk)[0].rows == len(counts) + 1
        return
    with pytest.raises(DataError) as caught:
        layout_of(content, chunk)
    (finding,) = caught.value.report.findings
    assert (list(finding.locations), finding.count) == (wrong[:10], len(wrong))


@pytest.mark.parametrize("chunk", [9, 10, 11, 1 << 18])
def test_empty_lines_and_characters_that_two_chunks_share(chunk):
    layout, report = layout_of("a,b\n\n1,2\r\n\r\n\né日,4\n\n\n".encode(), chunk)
    assert layout.blank.tolist() == [1, 3, 4, 6, 7]
    assert report.findings[0].locations == (2, 4, 5)  # empty lines at the end are not reported
    assert layout.line_numbers()(np.array([0, 1])).tolist() == [3, 6]
    with pytest.raises(DataError, match="line 3: the byte 0xE9 is not UTF-8"):
        layout_of("a,b\ncdé日本,1\n".encode() + b"\xe9,1\n", chunk)


@hypothesis.given(
    among=st.lists(st.text("abc", min_size=1, max_size=3), unique=True)
    | st.lists(st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1), unique=True, max_size=20),
    asked=st.lists(st.none() | st.text("abcd", min_size=1, max_size=3)),
    numbers=st.lists(st.integers(-25, 25) | st.integers(-(2**63), 2**63 - 1)),
    many=st.sampled_from([-1, ids._MANY]),
)
@hypothesis.settings(deadline=None)
def test_ids_are_found_by_any_table(among, asked, numbers, many):
    dtype = pl.Int64 if among and isinstance(among[0], int) else pl.String
    asked = numbers if dtype == pl.Int64 else asked
    with patch.object(ids, "_MANY", many):
        found = ids.positions(pl.Series(asked, dtype=dtype), pl.Series(among, dtype=dtype))
    assert found.tolist() == [among.index(one) if one in among else -1 for one in asked]
