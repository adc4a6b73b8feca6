"""Training of decoders on random frames, and counting of their errors."""

import torch

from tgnn.data.codes import bch_code, peg_code
from tgnn.nn import BeliefPropagation, FactorGraphNet
from tgnn.training import decoding
from tgnn.training.decoding import DecoderTraining, count_errors, decode, train_decoder, validation_loss

CODE = bch_code(7, 4)
OPTIONS = DecoderTraining(steps=60, batch_size=32, lr=0.01, ebn0_db=(0.0, 4.0))


def network(seed=0):
    torch.manual_seed(seed)
    return FactorGraphNet(1, 8, num_rounds=3)


def test_training_lowers_the_validation_loss():
    net = network()
    before = validation_loss(net, CODE, (0.0, 4.0), 500)
    losses = []
    train_decoder(net, CODE, OPTIONS, on_step=lambda step, loss: losses.append((step, loss)))
    assert validation_loss(net, CODE, (0.0, 4.0), 500) < 0.7 * before
    assert [step for step, _ in losses] == list(range(1, 61))


def test_training_starts_with_the_received_bits():
    llr = torch.randn(5, 7)
    torch.testing.assert_close(decode(network(), CODE, llr), llr.expand(3, 5, 7))


def test_an_interrupted_training_continues_to_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "_SAVE_EVERY", -1.0)
    whole, interrupted = network(), network()
    train_decoder(whole, CODE, OPTIONS)

    def stop(step, loss):
        if step == 30:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "checkpoint"
    try:
        train_decoder(interrupted, CODE, OPTIONS, checkpoint, stop)
    except KeyboardInterrupt:
        assert checkpoint.exists()
    resumed, steps = network(seed=1), []
    train_decoder(resumed, CODE, OPTIONS, checkpoint, lambda step, loss: steps.append(step))
    assert steps == list(range(30, 61))  # the checkpoint was written after step 29
    for one, other in zip(whole.parameters(), resumed.parameters()):
        torch.testing.assert_close(one, other)
    assert not checkpoint.exists()


def test_all_decoders_receive_the_same_test_frames():
    limits = {"min_frames": 500, "max_frames": 500}
    counts = [count_errors(BeliefPropagation(3), CODE, 2.0, seed=seed, **limits) for seed in (0, 0, 1)]
    assert counts[0] == counts[1] != counts[2]


def test_a_point_ends_at_enough_wrong_frames_or_at_the_maximum():
    few = count_errors(BeliefPropagation(3), CODE, 0.0, min_frames=200, max_frames=5000, min_frame_errors=20)
    assert few.frames == 200
    assert few.frame_errors >= 20
    assert few.frame_error_rate == few.frame_errors / 200
    most = count_errors(BeliefPropagation(3), CODE, 12.0, min_frames=200, max_frames=1000, min_frame_errors=20)
    many = count_errors(BeliefPropagation(3), CODE, -9.0, min_frames=5000, max_frames=5000, min_frame_errors=20)
    assert 200 <= many.frame_errors < many.frames < 1000
    assert most.frames == 1000
    assert most.bit_error_rate == most.bit_errors / 7000


def test_decode_runs_another_number_of_rounds():
    code = peg_code(24, 12)
    llr = torch.randn(5, 24)
    for decoder in (FactorGraphNet(1, 4, num_rounds=2), BeliefPropagation(2)):
        assert decode(decoder, code, llr).shape == (2, 5, 24)
        assert decode(decoder, code, llr, num_rounds=7).shape == (7, 5, 24)
