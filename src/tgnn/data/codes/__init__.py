"""Error-correcting codes: parity-check matrices, codewords and noisy frames for decoding."""

from tgnn.data.codes.alist import read_alist
from tgnn.data.codes.channel import awgn_frames
from tgnn.data.codes.code import ParityCheckCode
from tgnn.data.codes.constructions import bch_code, peg_code

__all__ = ["ParityCheckCode", "awgn_frames", "bch_code", "peg_code", "read_alist"]
