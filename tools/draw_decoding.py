"""Draw the bit error rates of decoders from results/table-decoding.json: docs/images/decoding.svg.

Run: .venv/bin/python tools/draw_decoding.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tgnn.experiments.decoding import AGGREGATIONS, NETWORK_ROWS, PUBLISHED, RECIPES, by_protocol
from tgnn.experiments.results import read_result
from tgnn.experiments.statistics import summarize_scores

ROOT = Path(__file__).parents[1]
NAMES = {"cp": "product (CP)", "gat": "attention (GAT)", "gated": "gated mean"}
CODES = ("peg-96-48", "bch-63-45")
COLORS = ("#1f5fa8", "#d9822b", "#7a7a7a", "#b03060", "#2a8c5a", "#8a5fb0", "#6b4f2a")


def main() -> None:
    result = read_result(ROOT / "results" / "table-decoding.json")
    groups = by_protocol(result.columns)
    panels = {name: groups[name] for name in CODES}
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.6 * len(panels) + 0.4, 5.0), layout="constrained", squeeze=False
    )
    for axis, (code, columns) in zip(axes[0], panels.items()):
        rounds = RECIPES[code].num_rounds
        belief_propagation = {f"sum-product {n}": f"belief propagation, {n} iterations" for n in (rounds, 20)}
        for row in (*NETWORK_ROWS, *belief_propagation):
            scores = {
                ebn0: summarize_scores(cell.tests) for ebn0, c in columns.items() if (cell := result.cell(row, c))
            }
            rates = {ebn0: score.mean for ebn0, score in scores.items() if score is not None and score.mean > 0}
            if not rates:
                continue
            name, _, longer = row.partition(" ")
            label = belief_propagation.get(row) or NAMES.get(name, name) + (", 10 times the steps" if longer else "")
            color = COLORS[AGGREGATIONS.index(name)] if name in AGGREGATIONS else "black"
            dash = ":" if row == "sum-product 20" else "--" if longer or row in belief_propagation else "-"
            width = 2.4 if name == "cp" else 1.3
            axis.semilogy(list(rates), list(rates.values()), dash, color=color, marker="o", ms=4, lw=width, label=label)
        for name, (_, rates) in PUBLISHED.get(code, {}).items():
            published = {ebn0: rate for ebn0, rate in rates.items() if ebn0 in columns}
            axis.semilogy(list(published), list(published.values()), "x", ms=6, label=f"{name} iterations")
        axis.set(title=f"{code}, {rounds} rounds", xlabel="Eb/N0 in dB", ylabel="bit error rate")
        axis.set_xticks(list(columns))
        axis.grid(which="both", alpha=0.25)
        axis.legend(fontsize=7, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    figure.savefig(ROOT / "docs" / "images" / "decoding.svg")


if __name__ == "__main__":
    main()
