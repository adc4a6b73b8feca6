"""Train networks that decode error-correcting codes, and count the errors of decoders on random frames."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tgnn.data.codes import ParityCheckCode, awgn_frames
from tgnn.nn import BeliefPropagation
from tgnn.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from tgnn.training.config import OptimizerConfig
from tgnn.training.optim import LearningRateSchedule

_CHUNK = 100
"""Test frames that are decoded at once. Their messages fit into the cache of a processor."""
_GRAD_CLIP = 0.1
"""Maximum norm of the gradient. Without it, networks with long checks can fall back to the received bits."""
_SAVE_EVERY = 30.0
"""Seconds between two checkpoints."""
_PURPOSES = ("training", "validation", "test")


@dataclass(frozen=True)
class DecoderTraining:
    """Options of the training of a decoder on random frames.

    Args:
        steps: Number of training steps. Each has new frames.
        batch_size: Number of frames per step.
        lr: Highest learning rate of AdamW. It rises in the first 5% of the steps and falls with a cosine after them.
        ebn0_db: Lowest and highest signal-to-noise ratio of the training frames in decibels, drawn uniformly.
        seed: Seed of the training frames. The validation and test frames have other seeds.
    """

    steps: int
    batch_size: int
    lr: float
    ebn0_db: tuple[float, float]
    seed: int = 0


@dataclass(frozen=True)
class ErrorCount:
    """Errors of a decoder on test frames.

    Args:
        frames: Number of decoded frames.
        frame_errors: Number of frames with at least one wrong bit.
        bit_errors: Number of wrong bits.
        bits: Number of bits of a frame.
    """

    frames: int
    frame_errors: int
    bit_errors: int
    bits: int

    @property
    def bit_error_rate(self) -> float:
        """Wrong bits per bit."""
        return self.bit_errors / (self.frames * self.bits)

    @property
    def frame_error_rate(self) -> float:
        """Wrong frames per frame."""
        return self.frame_errors / self.frames


def decode(decoder: torch.nn.Module, code: ParityCheckCode, llr: Tensor, num_rounds: int | None = None) -> Tensor:
    """Decode frames with a network or with belief propagation.

    Args:
        decoder: A :class:`~tgnn.nn.FactorGraphNet` with one feature and one output per variable, which receives and
            returns a quarter of the log-likelihood ratios, or :class:`~tgnn.nn.BeliefPropagation`.
        code: The code.
        llr: Log-likelihood ratios of the received frames, ``[B, n]``.
        num_rounds: Number of rounds; by default that of the decoder.

    Returns:
        Logits of bit 0 after every round, ``[rounds, B, n]``.
    """
    if isinstance(decoder, BeliefPropagation):
        logits: Tensor = decoder(llr.T, code.edge_index, code.num_checks, num_rounds)
    else:
        logits = 4 * decoder(llr.T.unsqueeze(-1) / 4, code.edge_index, code.num_checks, num_rounds).squeeze(-1)
    return logits.transpose(1, 2)


def train_decoder(
    net: torch.nn.Module,
    code: ParityCheckCode,
    options: DecoderTraining,
    checkpoint: Path | None = None,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> float:
    """Train a decoder on random frames with the loss of all rounds, and return the seconds.

    Args:
        net: Network to train, changed in place.
        code: The code.
        options: Number of steps, learning rate and frames.
        checkpoint: File to continue from and to save to every 30 seconds. It is removed at the end.
        on_step: Called with the number of finished steps and the loss after every step.
    """
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.lr)
    config = OptimizerConfig(lr=options.lr, schedule="cosine", warmup=options.steps // 20)
    schedule, progress = LearningRateSchedule(optimizer, config, options.steps), Progress()
    if checkpoint is not None and checkpoint.exists():
        _, progress = load_checkpoint(checkpoint, net, optimizer)
    start, earlier, saved = time.monotonic(), progress.seconds, time.monotonic()
    low, high = options.ebn0_db
    while progress.epoch < options.steps:
        generator = _generator("training", options.seed, progress.epoch)
        ebn0_db = low + (high - low) * torch.rand(options.batch_size, generator=generator)
        schedule.set_learning_rate(progress.epoch)
        loss = decoding_loss(net, code, *awgn_frames(code, ebn0_db, generator))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), _GRAD_CLIP)
        optimizer.step()
        progress.epoch += 1
        progress.seconds = earlier + time.monotonic() - start
        on_step(progress.epoch, float(loss.detach()))
        if checkpoint is not None and time.monotonic() - saved > _SAVE_EVERY:
            saved = time.monotonic()
            save_checkpoint(checkpoint, net, {}, optimizer, progress)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return progress.seconds


def decoding_loss(net: torch.nn.Module, code: ParityCheckCode, llr: Tensor, codewords: Tensor) -> Tensor:
    """Compute the binary cross-entropy of all bits, averaged over all rounds."""
    logits = decode(net, code, llr)
    return binary_cross_entropy_with_logits(-logits, codewords.expand_as(logits).float())


@torch.no_grad()
def validation_loss(net: torch.nn.Module, code: ParityCheckCode, ebn0_db: tuple[float, float], frames: int) -> float:
    """Compute the loss of the last round on validation frames, which are the same for every network."""
    generator, total = _generator("validation"), 0.0
    low, high = ebn0_db
    for _ in range(0, frames, _CHUNK):
        llr, codewords = awgn_frames(code, low + (high - low) * torch.rand(_CHUNK, generator=generator), generator)
        logits = decode(net, code, llr)[-1]
        total += float(binary_cross_entropy_with_logits(-logits, codewords.float(), reduction="sum"))
    return total / (frames * code.n)


@torch.no_grad()
def count_errors(
    decoder: torch.nn.Module,
    code: ParityCheckCode,
    ebn0_db: float,
    *,
    seed: int = 0,
    num_rounds: int | None = None,
    min_frames: int = 10_000,
    max_frames: int = 100_000,
    min_frame_errors: int = 100,
) -> ErrorCount:
    """Count the errors of a decoder on test frames. With the same seed, all decoders receive the same frames.

    Args:
        decoder: Decoder, as for :func:`decode`.
        code: The code.
        ebn0_db: Signal-to-noise ratio of all frames in decibels.
        seed: Seed of the test frames.
        num_rounds: Number of rounds; by default that of the decoder.
        min_frames: Minimum number of frames, unless ``10 * min_frame_errors`` frames are wrong before.
        max_frames: Stop after this number of frames even if there are fewer errors than ``min_frame_errors``.
        min_frame_errors: Stop after this number of wrong frames, once ``min_frames`` are decoded.
    """
    generator = _generator("test", seed)
    frames = frame_errors = bit_errors = 0
    while frames < max_frames:
        llr, codewords = awgn_frames(code, torch.full((_CHUNK,), ebn0_db), generator)
        wrong = (decode(decoder, code, llr, num_rounds)[-1] < 0) != codewords.bool()
        frames += _CHUNK
        bit_errors += int(wrong.sum())
        frame_errors += int(wrong.any(1).sum())
        if frame_errors >= (min_frame_errors if frames >= min_frames else 10 * min_frame_errors):
            break
    return ErrorCount(frames, frame_errors, bit_errors, code.n)


def _generator(purpose: str, seed: int = 0, step: int = 0) -> torch.Generator:
    """Return a random generator. Training, validation and test frames never share a seed."""
    return torch.Generator().manual_seed((_PURPOSES.index(purpose) * 10_000 + seed) * 100_000_000 + step)
