"""Decode an error-correcting code with products, sums or means at the parity checks, and with belief propagation.

With bits 0 and 1 as +1 and -1, the product of the bits of a satisfied check is +1. After 600 steps, the network with
products has the error rate of belief propagation with the same number of rounds. With sums it is several times as high,
and with means the network has not learned to correct errors. Run: python examples/decoding.py
"""

from __future__ import annotations

import argparse

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tgnn.data.codes import ParityCheckCode, peg_code
from tgnn.nn import BeliefPropagation, FactorGraphNet
from tgnn.training.decoding import DecoderTraining, count_errors, train_decoder

ROUNDS = 5


def train(code: ParityCheckCode, aggr: str, training: DecoderTraining, progress: Progress) -> FactorGraphNet:
    """Train a network with an aggregation at the checks."""
    torch.manual_seed(0)
    net = FactorGraphNet(in_channels=1, hidden_channels=16, num_rounds=ROUNDS, aggr=aggr)
    task = progress.add_task(f"training with {aggr}", total=training.steps)
    train_decoder(net, code, training, on_step=lambda step, loss: progress.update(task, completed=step))
    return net


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600, help="Number of training steps of 32 frames.")
    parser.add_argument("--frames", type=int, default=4000, help="Number of test frames.")
    arguments = parser.parse_args()
    code = peg_code(96, 48)
    training = DecoderTraining(arguments.steps, batch_size=32, lr=0.005, ebn0_db=(1.0, 5.0))
    decoders: dict[str, torch.nn.Module] = {f"belief propagation, {ROUNDS} rounds": BeliefPropagation(ROUNDS)}
    with Progress() as progress:
        for aggr in ("cp", "sum", "mean"):
            decoders[f"network, {aggr} at the checks"] = train(code, aggr, training, progress)

    table = Table(title=f"{code.name}: bit error rate / frame error rate")
    for column in ("decoder", "weights", "3 dB", "4 dB"):
        table.add_column(column)
    frames = {"min_frames": arguments.frames, "max_frames": arguments.frames}
    for name, decoder in decoders.items():
        counts = [count_errors(decoder, code, ebn0_db, **frames) for ebn0_db in (3.0, 4.0)]
        weights = sum(parameter.numel() for parameter in decoder.parameters())
        rates = (f"{count.bit_error_rate:.4f} / {count.frame_error_rate:.3f}" for count in counts)
        table.add_row(name, f"{weights:,}", *rates)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
