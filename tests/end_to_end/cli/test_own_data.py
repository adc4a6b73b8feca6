"""Own tables and molecules through the commands: from files as users write them to predictions of new rows."""

from __future__ import annotations

import os

from tests.end_to_end.cli.conftest import write_friends


def test_names_in_capitals_thousands_and_file_modes(succeed, tmp_path):
    pay = [f"{1 + 37 * (i % 2)},{500 + i}.5" for i in range(60)]
    write_friends(tmp_path / "friends", pay=pay)
    (tmp_path / "friends/nodes.csv").rename(tmp_path / "friends/Nodes.CSV")
    assert "numeric: height, pay;" in succeed("data check friends")
    before = os.umask(0o027)
    try:
        succeed("train --data friends --epochs 2 --out run")
        succeed("predict run --data friends --out p.csv")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir() if path.name != ".lock"} == {0o640}
