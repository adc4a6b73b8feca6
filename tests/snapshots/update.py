"""Write the snapshots anew: ``python -m tests.snapshots.update``. Review every changed line before committing it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.snapshots.cells import recognized_cells
from tests.snapshots.configs import current_configs
from tests.snapshots.help import current_help

HERE = Path(__file__).parent


def main() -> None:
    lines = [f"{json.dumps(pair)}: {json.dumps(config)}" for pair, config in current_configs().items()]
    (HERE / "configs.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for old in (HERE / "help").glob("*.txt"):
        old.unlink()
    for name, text in current_help().items():
        (HERE / "help" / f"{name}.txt").write_text(text, encoding="utf-8")
    cells = json.dumps(recognized_cells(), indent=1)
    (HERE / "recognized_cells.json").write_text(cells + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
