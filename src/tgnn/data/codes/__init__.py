"""Error-correcting codes: parity-check matrices, codewords and noisy frames for decoding."""

from tgnn.data.codes.alist import read_alist
from tgnn.data.codes.channel import awgn_frames
from tgnn.data.codes.code import ParityCheckCode
from tgnn.data.codes.constructions import bch_code, peg_code
from tgnn.data.codes.named import CODES, load_code

__all__ = ["CODES", "ParityCheckCode", "awgn_frames", "bch_code", "load_code", "peg_code", "read_alist"]
