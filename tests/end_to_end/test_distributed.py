"""Distributed training: equal to one process, after killed processes too, and with clear errors."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from tests import warm
from tgnn.data.graph_dataset import pack
from tgnn.data.readers.graph_npz import write_graphs
from tgnn.training.checkpoint import read_tensors
from tgnn.training.run_folder import RunFolder

pytestmark = pytest.mark.slow
GRAPHS = (
    *("--data", "graphs.npz", "--batch-size", "10", "--hidden", "8", "--lr", "0.001", "--dropout", "0"),
    *("--set", "model.norm=batch_norm"),  # which all processes must see as one batch
    *("--set", "model.factors=weighted", "--set", "model.low_order=mean", "--set", "model.readout=mean+cp"),
    *("--rank", "4", "--layers", "2", "--epochs", "40"),
)
NODES = (
    *("digits", "--sample", "4,4", "--batch-size", "100", "--dropout", "0", "--epochs", "12", "--rank", "8"),
    *("--set", "model.factors=plain", "--set", "model.low_order=mean", "--set", "model.input_dropout=0"),
    *("--lr", "0.003"),  # with a larger one, rounding errors grow beyond the tolerance
)
WAYS = {"graphs": GRAPHS, "sampled nodes": NODES}
SAVE = ("--set", "train.save_every=0")


@contextlib.contextmanager
def processes(
    each: list[tuple[str, ...]], script: str = warm.TGNN, machines: bool = False, **more: str
) -> Iterator[list[warm.Process]]:
    """Start one process per list of arguments, as a launcher on one or several machines does."""
    with contextlib.ExitStack() as stack:
        probe = stack.enter_context(socket.socket())
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # rank 0 may listen on the port, and nobody else
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        common = os.environ | {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} | more
        started = []
        for rank, arguments in enumerate(each):
            own = {"RANK": str(rank), "WORLD_SIZE": str(len(each))}
            if not machines:
                own |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(len(each))}
            environment = common | (own if len(each) > 1 else {})
            started.append(stack.enter_context(warm.Process(script, *arguments, environment=environment)))
        yield started


def write_example_graphs(path: Path) -> None:
    """Write 52 graphs with a training set of 32. The last batch of 2 graphs is too small for three processes."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for number in range(52):
        nodes = int(torch.randint(3, 9, (1,), generator=generator))
        edges = torch.randint(nodes, (2, 3 * nodes), generator=generator)
        x = torch.randn(nodes, 3, generator=generator) + number % 2
        graphs.append(Data(x=x, edge_index=edges, y=torch.tensor([number % 2])))
    write_graphs(pack(graphs, split=torch.tensor([0] * 32 + [1] * 11 + [2] * 9)), path)


def finish(started: list[warm.Process], code: int = 0) -> list[str]:
    """Wait for all processes and return their error output."""
    codes = [process.wait() for process in started]
    output = [process.read("err") for process in started]
    assert codes == [code] * len(started), output
    assert not any("Traceback" in text for text in output), output
    return output


def train(folder: Path, arguments: tuple[str, ...], count: int) -> None:
    with processes([("train", *arguments, "--out", str(folder))] * count) as started:
        finish(started)


def curve(folder: Path) -> list[float]:
    lines = RunFolder(folder).history()
    assert [line["epoch"] for line in lines] == list(range(len(lines)))
    return [line[name] for line in lines for name in ("loss", "val_loss")]


def metrics(folder: Path) -> dict:
    found = json.loads((folder / "metrics.json").read_text())
    return {key: value for key, value in found.items() if key != "seconds"}


# ---- equal to one process ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_any_number_of_processes_trains_as_one_and_resumes(way, tmp_path, monkeypatch):
    """One process is killed, two resume and are interrupted, three finish. The result is that of one process."""
    monkeypatch.chdir(tmp_path)
    write_example_graphs(tmp_path / "graphs.npz")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, WAYS[way], 1)
    held = warm.held_after(3, tmp_path / "go")
    with processes([("train", *WAYS[way], *SAVE, "--out", str(parts))], held) as (alone,):
        alone.until(lambda: (parts / "checkpoint.safetensors").exists())
    elsewhere = tmp_path / "not here"  # other ranks need no folder
    with processes([("train", "--resume", str(folder)) for folder in (parts, elsewhere)], held) as started:
        started[0].until(lambda: len(RunFolder(parts).history()) > 3)
        started[1].send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        output = finish(started, 130)
    assert f"continue with: tgnn train --resume {parts}" in output[0]
    assert output[1] == ""
    assert read_tensors(parts / "checkpoint.safetensors").metadata["epoch"] == len(RunFolder(parts).history())
    with processes([("train", "--resume", str(parts))] * 3) as started:
        finish(started)
    assert curve(parts) == pytest.approx(curve(whole), abs=1e-5)
    assert metrics(parts)["test"] == metrics(whole)["test"]
    assert not elsewhere.exists()
    assert sorted(path.name for path in parts.iterdir()) == sorted(path.name for path in whole.iterdir())


MATH = """
import copy
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm
from tgnn.training.loaders import TrainingBatch
from tgnn.training.distributed.torchrun import join_world

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(4, 5, bias=False), BatchNorm(5), torch.nn.Tanh(), torch.nn.Linear(5, 5, bias=False),
            torch.nn.BatchNorm1d(5, momentum=None), torch.nn.Linear(5, 2),
        )
        self.unused = torch.nn.Linear(1, 1)
    def forward(self, data):
        self.extra_loss = self.body[0].weight.square().sum()
        return self.body(data.x)

torch.manual_seed(0)
model = Net().double()
plain = copy.deepcopy(model)
with join_world() as world:
    x, y = torch.randn(3, 5, 4, dtype=torch.float64), torch.randint(2, (3, 5))
    outputs = world.data_parallel(model)
    for step, rows in enumerate((5, 2, 5)):  # of two rows, the third process has none
        numbers = torch.arange(rows)
        mine = world.shard(numbers)
        share, is_idle = len(mine) / rows, not len(mine)
        mine = numbers[:1] if is_idle else mine
        model.zero_grad()
        out = outputs(TrainingBatch(Data(x=x[step, mine]), None, y[step, mine], rows, share, is_idle))
        ((F.cross_entropy(out, y[step, mine]) + model.extra_loss) * share * world.size).backward()
        plain.zero_grad()
        F.cross_entropy(plain(Data(x=x[step, :rows])), y[step, :rows]).add(plain.extra_loss).backward()
        for (name, one), other in zip(model.named_parameters(), plain.parameters()):
            assert (one.grad is None) == (other.grad is None) == name.startswith("unused"), name
            assert one.grad is None or torch.allclose(one.grad, other.grad, rtol=1e-10, atol=1e-12), name
    assert list(model.state_dict()) == list(plain.state_dict())
    for (name, one), other in zip(model.named_buffers(), plain.buffers()):
        assert torch.allclose(one, other, rtol=1e-12), name
    data = Data(x=x[0])
    assert torch.allclose(model.eval()(data), plain.eval()(data), rtol=1e-12)

    assert world.broadcast(lambda: {"rank": world.rank, "nan": None}) == {"rank": 0, "nan": None}
    assert world.broadcast_bytes(lambda: b"" if world.is_rank_zero else b"no") == b""
    assert world.broadcast_bytes(lambda: bytes(range(256)) * 1000) == bytes(range(256)) * 1000
    assert world.any(world.rank == 2) and not world.any(False)
    assert world.all_reduce(float(world.rank)) == 3.0
    rows = torch.full((2 * world.rank, 3), float(world.rank)) if world.rank else torch.empty(0, 0)
    assert world.all_gather(rows).tolist() == [[1.0] * 3] * 2 + [[2.0] * 3] * 4
    print("all is well")
"""


def test_gradients_and_statistics_are_those_of_the_whole_batch():
    with processes([()] * 3, MATH) as started:
        finish(started)
        assert all(process.read("out") == "all is well\n" for process in started)


# ---- errors -----------------------------------------------------------------------------------------------------

QUICK = ("train", "karate", "--sample", "2,2", "--epochs", "2", "--out")


def test_different_configurations_are_an_error_that_names_the_ranks(tmp_path):
    each = [(*QUICK, str(tmp_path / "run"), "--seed", seed) for seed in ("1", "2", "1")]
    with processes(each, machines=True) as started:
        output = finish(started, 2)
    assert len(set(output)) == 1
    assert "The processes do not have the same configuration: " in output[0]
    assert " on rank 0, 2; " in output[0]
    assert " on rank 1. Start all of them with the same command" in output[0]
    assert not (tmp_path / "run").exists()


def test_an_error_of_one_process_ends_all(tmp_path):
    """The data is not on the second machine."""
    each = [(*QUICK, str(tmp_path / "run")), ("train", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "x"))]
    with processes(each, machines=True) as started:
        output = finish(started, 2)
    assert f"{tmp_path / 'none'}" in output[1]
    assert "error: Rank 1: " in output[0]
    assert f"{tmp_path / 'none'}" in output[0]


def test_one_graph_is_not_shared_as_a_whole(tmp_path):
    with processes([("train", "karate", "--out", str(tmp_path / "run"))] * 2) as started:
        output = finish(started, 2)
    assert "2 processes cannot share the full batch of one graph. Sample neighborhoods, for example --sa" in output[0]
    assert output[1] == ""  # one process per machine prints


def test_a_used_port_and_a_port_without_listener(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with processes([(*QUICK, str(tmp_path / "run"))] * 2, MASTER_PORT=port) as started:
            assert started[0].wait() == 2
            output = started[0].read("err")
    assert f"Rank 0 of 2 could not connect to the other processes at 127.0.0.1:{port}: " in output
    assert "a free port on it" in output
    script = "from tgnn.training.distributed.torchrun import join_world\nwith join_world(1):\n    pass"
    environment = os.environ | {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    found = warm.run(script, environment=environment)
    assert found.returncode == 1
    assert (
        f"RendezvousError: Rank 1 of 2 could not connect to the other processes at 127.0.0.1:{port}: " in found.stderr
    )


# ---- torch's launcher -------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers to kill in /proc, which only Linux has")
def test_killed_workers_are_restarted_and_all_are_interrupted_together(tmp_path):
    """The run never ends. Its epochs are those of a run without interruptions."""
    arguments = ("train", "karate", "--sample", "3,3", "--batch-size", "16", *SAVE)
    arguments += ("--epochs", "1000000", "--patience", "1000000", "--out")
    broken, whole = tmp_path / "broken", tmp_path / "whole"

    def epochs(folder: Path) -> int:
        return len(RunFolder(folder).history())

    command = (*arguments, str(broken), "--processes", "2")
    with warm.Process(warm.TGNN, *command, environment=os.environ | {"OMP_NUM_THREADS": "1"}) as launcher:
        launcher.until(lambda: epochs(broken) > 3)
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        workers = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(workers[0], signal.SIGKILL)
        launcher.until(lambda: "restarted; continuing from the last checkpoint" in launcher.read("err"))
        at = epochs(broken)
        launcher.until(lambda: epochs(broken) > at + 3)
        launcher.send_signal(signal.SIGINT, to_all=True)
        assert launcher.wait() == 130, launcher.read("err")
        output = launcher.read("err")
    assert "Traceback" not in output
    assert output.count(f"continue with: tgnn train --resume {broken}") == 1
    assert read_tensors(broken / "checkpoint.safetensors").metadata["epoch"] == epochs(broken)
    with processes([(*arguments, str(whole))] * 2) as started:
        started[0].until(lambda: epochs(whole) >= epochs(broken))
    assert curve(broken) == curve(whole)[: len(curve(broken))]


HOSTS = {f"tgnn-{os.getpid()}-one": "10.231.77.1", f"tgnn-{os.getpid()}-two": "10.231.77.2"}
TORCHRUN = """
import ctypes, os, sys
name = sys.argv.pop(1)
if ctypes.CDLL(None).setns(os.open(f"/var/run/netns/{name}", os.O_RDONLY), 0x40000000) != 0:  # CLONE_NEWNET
    sys.exit("not allowed to enter " + name)
from torch.distributed.run import main
main()
"""


@pytest.fixture
def hosts() -> Iterator[dict[str, str]]:
    """Two hosts in network namespaces, connected by a virtual cable."""
    if shutil.which("ip") is None:
        pytest.skip("there is no program `ip` to make hosts with")
    one, two = HOSTS
    steps = [
        f"ip netns add {one}",
        f"ip netns add {two}",
        f"ip link add eth9 netns {one} type veth peer eth9 netns {two}",
    ]
    for name, address in HOSTS.items():
        steps += [f"ip -n {name} addr add {address}/24 dev eth9"]
        steps += [f"ip -n {name} link set {device} up" for device in ("lo", "eth9")]
    try:
        for step in steps:
            done = subprocess.run(step.split(), capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"this machine cannot make hosts: {step}: {done.stderr.strip()}")
        yield HOSTS
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def test_two_hosts_and_torchrun(hosts, tmp_path):
    """Each host has its own folder. The folder of rank 0 holds the run."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth9"}
    meet = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "job")
    with contextlib.ExitStack() as stack:
        started = []
        for name, address in hosts.items():
            (tmp_path / name).mkdir()
            first = next(iter(hosts.values()))
            at = ("--rdzv-endpoint", f"{first}:29400", "--local-addr", address)
            at += ("--rdzv-conf", f"is_host={int(address == first)}")  # their name has no address here
            arguments = (name, *meet, *at, "-m", "tgnn", "train", *NODES, "--json")
            process = warm.Process(TORCHRUN, *arguments, folder=tmp_path / name, environment=environment)
            started.append(stack.enter_context(process))
        finish(started)
        results = [text for text in (process.read("out") for process in started) if text]
    train(tmp_path / "whole", NODES, 1)
    assert len(results) == 1
    assert json.loads(results[0])["test"] == metrics(tmp_path / "whole")["test"]
    runs = list(tmp_path.glob("tgnn-*/runs/digits-tgnn-job"))
    assert len(runs) == 1
    assert curve(runs[0]) == pytest.approx(curve(tmp_path / "whole"), abs=1e-5)
