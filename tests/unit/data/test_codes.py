"""Codes: constructions against known matrices, files in alist format, encoding and the channel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tgnn.data.codes import CODES, ParityCheckCode, awgn_frames, bch_code, load_code, peg_code, read_alist
from tgnn.data.codes.nr_ldpc import nr_ldpc_code
from tgnn.data.load import get_entry

SHARED = Path(__file__).parents[4] / "shared" / "data" / "codes"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the published matrices are not part of the project")


@needs_shared
@pytest.mark.parametrize(("n", "k"), [(31, 16), (63, 36), (63, 45), (63, 51)])
def test_bch_codes_have_the_published_matrices(n, k):
    published = np.loadtxt(SHARED / f"BCH_N{n}_K{k}.txt", dtype=int)
    assert np.array_equal(bch_code(n, k).parity_check, published)


@needs_shared
@pytest.mark.parametrize(
    ("file", "n", "k"),
    [("LDPC_N49_K24", 49, 24), ("LDPC_N121_K60", 121, 60), ("CCSDS_N128_K64", 128, 64), ("MACKAY_N96_K48", 96, 48)],
)
def test_published_alist_files(file, n, k):
    code = read_alist(SHARED / f"{file}.alist")
    assert (code.name, code.n) == (file, n)
    assert abs(code.k - k) <= 2  # rows of a published matrix may be linearly dependent


@pytest.mark.parametrize("code", [bch_code(15, 7), bch_code(63, 45), peg_code(96, 48)], ids=lambda code: code.name)
def test_codewords_satisfy_all_checks(code):
    information = torch.randint(2, (50, code.k))
    codewords = code.encode(information)
    assert not code.syndrome(codewords).any()
    assert len(torch.unique(codewords, dim=0)) == len(torch.unique(information, dim=0))
    codewords[:, 0] ^= 1
    assert code.syndrome(codewords).any(-1).all()


def test_minimum_distance_of_bch_codes():
    codewords = bch_code(15, 7).encode(torch.cartesian_prod(*[torch.arange(2)] * 7))
    assert codewords.sum(1).sort().values[1] == 5


def test_peg_codes_avoid_short_cycles():
    code = peg_code(96, 48)
    overlaps = code.parity_check.T @ code.parity_check  # number of checks that two variables share
    assert overlaps.fill_diagonal_(0).max() == 1  # no cycle of length 4
    assert torch.equal(code.parity_check, peg_code(96, 48).parity_check)
    assert set(code.parity_check.sum(1).tolist()) <= {5, 6, 7}


def test_awgn_error_rate_without_decoding():
    code = bch_code(63, 45)
    llr, codewords = awgn_frames(code, torch.full((20_000,), 5.0), torch.Generator().manual_seed(0))
    expected = torch.special.erfc(torch.tensor((code.rate * 10**0.5) ** 0.5)) / 2  # Q(sqrt(2 rate Eb/N0))
    assert ((llr < 0) != codewords.bool()).float().mean().item() == pytest.approx(expected.item(), rel=0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an alist file"),
        ("7 3\n3 4\n", "truncated: it has 2 lines"),
        ("3 x", "line 1: '3 x' is not a list of integers"),
        ("3 2\n2 2\n1 2 1\n2 2\n1 0\n", "truncated: it has 5 lines instead of 9 lines for 3 variables and 2 checks"),
        ("3 2\n2 2\n1 2 1\n2 2\n1 0\n1 5\n2 0\n1 2\n2 3\n", "variable 2 lists 5, but indices go from 1 to 2"),
        ("3 2\n2 2\n1 2 1\n2 2\n1 0\n1 2\n2 0\n1 2\n2 0\n", "only one of variable 3 and check 2 lists the other"),
    ],
)
def test_bad_alist_files(tmp_path, text, message):
    path = tmp_path / "code.alist"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_alist(path)


def test_impossible_codes():
    with pytest.raises(ValueError, match="n is 10, but must be 7, 15"):
        bch_code(10, 5)
    with pytest.raises(ValueError, match="no BCH code with n = 63 and k = 44. Possible values of k include 57, 51, 45"):
        bch_code(63, 44)
    with pytest.raises(ValueError, match="degree is 9, but must be between 1 and num_checks, 4"):
        peg_code(8, 4, degree=9)
    with pytest.raises(ValueError, match="no codeword except zero"):
        ParityCheckCode("identity", torch.eye(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="zeros and ones"):
        ParityCheckCode("two", torch.full((1, 3), 2))


def test_codes_by_name(tmp_path, monkeypatch):
    monkeypatch.delenv("TGNN_DATA", raising=False)
    for name, entry in CODES.items():
        if entry.construct is not None:
            code = load_code(name)
            assert (code.n, code.k) == (entry.n, entry.k)
    with pytest.raises(ValueError, match="neither an alist file nor a code: bch-63-45"):
        load_code("bch")
    with pytest.raises(FileNotFoundError, match="LDPC_N49_K24.alist, but no folder was given"):
        load_code("ldpc-49-24")
    with pytest.raises(FileNotFoundError, match="it is not in .* or its folder codes"):
        load_code("ldpc-49-24", tmp_path)
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "LDPC_N49_K24.alist").write_text("3 2\n2 2\n1 2 1\n2 2\n1 0\n1 2\n2 0\n1 2\n2 3\n")
    with pytest.raises(ValueError, match="is not ldpc-49-24: it has n = 3 and k = 1"):
        load_code("ldpc-49-24", tmp_path)
    assert load_code(tmp_path / "codes" / "LDPC_N49_K24.alist").k == 1


@pytest.fixture
def base_graph(tmp_path):
    """Six rows in the format of the base graphs of 5G: each has an information column and its own parity column."""
    lines = ["Row index;Column index;Set index", ";;0;1;2;3;4;5;6;7"]
    for row in range(6):
        lines.append(f"{row};{row};" + ";".join(["3"] * 8))
        lines.append(f";{10 + row};" + ";".join(["0"] * 8))
    path = tmp_path / "5G_bg2.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_5g_codes_are_lifted_shortened_and_punctured(base_graph):
    code = nr_ldpc_code(18, 12, base_graph)
    assert (code.n, code.k, code.num_punctured, code.rate) == (22, 12, 4, 12 / 18)
    assert code.parity_check[0].nonzero().flatten().tolist() == [1, 12]  # the shift is 3 modulo the size, 2
    assert code.parity_check[1].nonzero().flatten().tolist() == [0, 13]
    llr, _ = awgn_frames(code, torch.full((5,), 40.0), torch.Generator().manual_seed(0))
    assert llr[:, :4].eq(0).all()
    assert llr[:, 4:].ne(0).all()
    for n, k, message in ((100, 12, "must be between 16 and 20"), (18, 200, "must be between 1 and 192")):
        with pytest.raises(ValueError, match=message):
            nr_ldpc_code(n, k, base_graph)


def test_5g_base_graph_from_root_or_package(base_graph, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="n is 128, but must be between"):  # the small graph is read
        load_code("5g-128-64", tmp_path)
    fetched = []
    entry = replace(CODES["5g-128-64"], fetch=lambda: fetched.append(1) or base_graph)
    monkeypatch.setitem(CODES, "5g-128-64", entry)
    with pytest.raises(FileNotFoundError, match="needs the file 5G_bg2.csv"):
        load_code("5g-128-64", offline=True)
    with pytest.raises(ValueError, match="n is 128"):
        load_code("5g-128-64")
    assert fetched == [1]


def test_a_code_is_not_a_data_set():
    with pytest.raises(ValueError, match="it is an error-correcting code: run `tgnn train bch-63-45`"):
        get_entry("bch-63-45")
