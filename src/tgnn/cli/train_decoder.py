"""``tgnn train`` on an error-correcting code: train a decoder, and compare it with belief propagation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, print_json, print_rows, print_text
from tgnn.cli.training_output import show_progress


def train_code(data: str | Path, options: Mapping[str, Any], folder: Path | None, dry_run: bool, json: bool) -> None:
    """Train a decoder on a code.

    Args:
        data: Name of a code, or path of an alist file.
        options: Options as ``{"section.key": value}``.
        folder: Folder of the run. ``None``: ``runs/<data>-<model>-<time>``.
        dry_run: Whether to print the configuration only.
        json: Whether to print the result as JSON.
    """
    from tgnn.cli.train import print_config
    from tgnn.training.decoder_runs import resolve_decoder_config, train_decoder_run
    from tgnn.training.interrupts import sigterm_as_interrupt
    from tgnn.training.train import default_folder

    config = resolve_decoder_config(data, options)
    if dry_run:
        print_config(config, json)
        return
    folder, quiet = folder or default_folder(config), json or console.verbosity < 0
    title = Path(config.data.name).name
    try:
        with sigterm_as_interrupt(), show_progress(title, config.train.epochs, quiet) as show:

            def on_epoch(epoch: int, loss: float) -> None:
                show(epoch, f"loss {loss:.4f}", f"epoch {epoch}/{config.train.epochs}, loss {loss:.4f}")

            metrics = train_decoder_run(config, folder, on_epoch)
    except KeyboardInterrupt:
        print_text(f"interrupted; a decoder cannot be resumed. Remove {folder} and train again.", err)
        raise typer.Exit(130) from None
    if json:
        print_json({**metrics, "folder": str(folder)})
        return
    print_points(metrics["points"])
    print_text(f"{metrics['parameters']:,} parameters, {metrics['seconds']:.0f} s, run {folder}")


def print_points(points: list[dict[str, Any]]) -> None:
    """Print the bit and frame error rates of every decoder, one column per signal-to-noise ratio."""
    ebn0s = list(dict.fromkeys(point["ebn0_db"] for point in points))
    rows: dict[str, list[str]] = {}
    for point in points:
        rates = f"{point['bit_error_rate']:.2e} / {point['frame_error_rate']:.2e}"
        rows.setdefault(point["decoder"], []).append(rates)
    print_text("bit error rate / frame error rate")
    print_rows(("decoder", *(f"{ebn0:g} dB" for ebn0 in ebn0s)), ([name, *rates] for name, rates in rows.items()))
