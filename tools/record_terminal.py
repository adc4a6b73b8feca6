"""Record ``tgnn train cora`` in a real terminal and draw it: docs/images/train.svg.

Run: .venv/bin/python tools/record_terminal.py
"""

from __future__ import annotations

import os
import pty
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 108


def record(command: list[str]) -> bytes:
    """Return everything that a command writes to a terminal."""
    output = bytearray()

    def keep(descriptor: int) -> bytes:
        block = os.read(descriptor, 1 << 16)
        output.extend(block)
        return block

    os.environ |= {"COLUMNS": str(WIDTH), "LINES": "30", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as nowhere:
        here, before = Path.cwd(), os.dup(1)
        os.chdir(folder)
        os.dup2(nowhere.fileno(), 1)
        try:
            pty.spawn(command, keep)
        finally:
            os.dup2(before, 1)
            os.chdir(here)
    return bytes(output)


def main() -> None:
    program = str(Path(sys.executable).with_name("tgnn"))
    raw = record([program, "train", "cora", *sys.argv[1:]]).decode()
    frames = [frame for frame in re.split(r"\r|\x1b\[2K|\x1b\[1A|\n", raw) if "epochs/s" in frame and "loss" in frame]
    result = raw[raw.rindex("\x1b[1mdata") :].replace("\r", "")
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text.from_ansi("\x1b[32m$\x1b[0m tgnn train cora"))
    console.print(Text.from_ansi(frames[len(frames) // 2]))
    console.print(Text.from_ansi(result.rstrip()))
    drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="tgnn"), flags=re.S)  # no fonts from the web
    (Path(__file__).parent.parent / "docs" / "images" / "train.svg").write_text(drawn)


if __name__ == "__main__":
    main()
