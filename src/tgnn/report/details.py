"""All about one run: its curves, settings, versions and hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgnn.report.figure import Figure
from tgnn.report.figures import mixing_curves
from tgnn.report.lines import Curve, legend, line_chart
from tgnn.report.numbers import number
from tgnn.report.runs import Run

_WIDTH = 380.0


@dataclass(frozen=True)
class Details:
    """What opens.

    Args:
        key: Its id in the page.
        run: Which run.
        figures: Its curves.
        lists: Settings, versions and hashes, each with a heading.
    """

    key: str
    run: Run
    figures: Sequence[Figure]
    lists: Sequence[tuple[str, Mapping[str, str]]]


def make_details(run: Run, place: int, points: int) -> Details:
    """Everything that is known; of each curve at most ``points`` points."""
    lists = [
        ("Settings", flat(run.config)),
        ("Environment", flat(run.environment)),
        ("Hashes", run.hashes),
    ]
    return Details(f"run-{place}", run, curves_of(run, points), [(name, found) for name, found in lists if found])


def curves_of(run: Run, points: int) -> list[Figure]:
    """Learning curves, mixing weights, and how alive the product branch is."""
    best = None if run.best_epoch is None else float(run.best_epoch)
    figures = []
    losses = [_curve(run, name, style) for style, name in enumerate(("loss", "val_loss"))]
    scores = [_curve(run, f"val_{run.metric}", 2, 0)] if run.metric else []
    panels = [
        line_chart("", found, "epoch", name, at=best, most=points, width=_WIDTH)
        for name, curves in (("loss", losses), (f"validation {run.metric}", scores))
        if (found := [curve for curve in curves if curve is not None])
    ]
    drawn = [curve for curve in (*losses, *scores) if curve is not None]
    if panels:
        note = "" if best is None else "The dotted line marks the best epoch on validation."
        figures.append(Figure("Learning curves", panels, legend(drawn), note))
    mixing = mixing_curves({name: _values(run, name) for name in _names(run, "a_high", "a_low")})
    if mixing:
        panel = line_chart("", mixing, "epoch", "weight of the branch", most=points, width=_WIDTH)
        figures.append(Figure("Weights of the branches", [panel], legend(mixing)))
    health = [
        curve
        for style, name in enumerate(_names(run, "saturated/", "vanished/"))
        if (curve := _curve(run, name, style, int(name.startswith("vanished")))) is not None
    ]
    if health:
        panel = line_chart("", health, "epoch", "share of products", most=points, width=_WIDTH)
        figures.append(Figure("Dead products", [panel], legend(health)))
    return figures


def _names(run: Run, *starts: str) -> list[str]:
    return list(dict.fromkeys(key for line in run.history for key in line if key.startswith(starts)))


def _values(run: Run, name: str) -> list[float | None]:
    return [number(line.get(name)) for line in run.history]


def _curve(run: Run, name: str, style: int, dash: int | None = None) -> Curve | None:
    known = [(float(epoch), value) for epoch, value in enumerate(_values(run, name), 1) if value is not None]
    if not known:
        return None
    return Curve(name, [x for x, _ in known], [y for _, y in known], style, style if dash is None else dash)


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Nested settings, one line each.

    Example:
        >>> flat({"model": {"rank": 8, "mix": None}})
        {'model.rank': '8', 'model.mix': 'none'}
    """
    found: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{before}{key}.")
        elif isinstance(value, (list, tuple)):
            found[f"{before}{key}"] = " ".join(str(part) for part in value)
        else:
            found[f"{before}{key}"] = "none" if value is None else str(value)
    return found
