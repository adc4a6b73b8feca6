"""Run the benchmarks and write ``docs/benchmarks.md``: ``make bench``, or one part with ``make bench ARGS="speed"``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import blocks, edge_factors, graphs, layers, loop, models, startup, theory
from benchmarks.measure import machine, paired, run_in_process, side_by_side
from benchmarks.product import bytes_touched, compare, only_ours
from tgnn.data import load

DOCS = Path(__file__).parent.parent / "docs"
ARXIV = (169_343, 2_500_000)  # numbers of nodes and (directed) edges of ogbn-arxiv


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def speed(arguments: argparse.Namespace) -> list[str]:
    nodes, edge_count = ARXIV
    cora_edges, cora_nodes = graphs.cora_with_self_loops()
    text = [
        "## Speed",
        "",
        "Median time of the forward and backward pass in float32, with fused tanh. All rows of a table were measured",
        "in one run. The row *memory copy* copies the minimum number of bytes that tgnn must read and write.",
        "",
    ]
    for name, edges, n, rank, rounds in (
        (f"N = {nodes:,}, E = {edge_count:,}, R = 128", graphs.uniform(nodes, edge_count), nodes, 128, 5),
        (f"Cora: N = {cora_nodes:,}, E = {cora_edges.size(1):,}, R = 512", cora_edges, cora_nodes, 512, 15),
    ):
        print(f"measuring {name}", flush=True)
        seconds = compare(edges, n, rank, rounds)
        ours = seconds["tgnn, cpp"]
        rows = [
            [who, f"{1e3 * s:.1f} ms", f"{s / ours:.1f}", f"{seconds['PyG gather + scatter mul'] / s:.1f}"]
            for who, s in seconds.items()
        ]
        touched = bytes_touched(n, edges.size(1), rank)
        traffic, rate = f"{touched / 1e9:.2f} GB", f"{touched / ours / 1e9:.0f} GB/s"
        text += [f"**{name}** (tgnn reads and writes at least {traffic}, at {rate})", ""]
        text += [*table(["", "time", "time / tgnn", "speedup over PyG mul"], rows), ""]
    return text


def factors_of_edges(arguments: argparse.Namespace) -> list[str]:
    rows = []
    print("measuring factors of edges", flush=True)
    seconds = side_by_side(edge_factors.contenders(), 9)
    for name in ("bounded product", "exclusive product", "exclusive product of tanh", "gated mean"):
        eager, ours = (seconds[f"{name}, {who}"] for who in ("eager", "tgnn"))
        memory_of = [
            run_in_process("benchmarks.edge_factors", f"{name}, {who}")["extra_gib"] * 1024 for who in ("eager", "tgnn")
        ]
        times = [f"{1e3 * eager:.1f} ms", f"{1e3 * ours:.1f} ms", f"{ours / eager:.2f}"]
        rows.append([name, *times, *(f"{m:.0f} MiB" for m in memory_of), f"{memory_of[1] / memory_of[0]:.2f}"])
    ratio = seconds["exclusive product, tgnn"] / seconds["bounded product, tgnn"]
    text = [
        "## Factors of edges",
        "",
        f"Forward and backward pass on a batch of {edge_factors.GRAPHS} graphs with {edge_factors.NODES} nodes and",
        f"{edge_factors.EDGES} edges each, with {edge_factors.WIDTH} columns. Factors and gates depend on the source,",
        "the destination and the edge. Memory is the peak beyond the inputs.",
        f"`exclusive_product` takes {ratio:.2f} times as long as `neighbor_product`.",
        "",
        *table(["", "eager PyG", "tgnn", "ratio", "memory, eager", "memory, tgnn", "ratio"], rows),
        "",
        "Time of small calls. A call is a forward and backward pass with 30 nodes, 60 edges and 32 columns. A training",
        "step uses a batch of 64 molecules.",
        "",
    ]
    small = {**side_by_side(edge_factors.small_calls(), 15), **side_by_side(edge_factors.molecules(), 9)}
    shares = ", ".join(f"{kind} {share:.0%}" for kind, share in edge_factors.molecule_profile().items())
    return [
        *text,
        *table(["", "time"], [[name, f"{1e3 * s:.3f} ms"] for name, s in small.items()]),
        "",
        f"Shares of a training step of GraphTGNN under Python's profiler, which slows down Python: {shares}.",
        "",
    ]


def hubs(arguments: argparse.Namespace) -> list[str]:
    nodes, edge_count = ARXIV
    print("measuring a graph with hubs", flush=True)
    seconds = side_by_side(
        {
            "uniform": only_ours(graphs.uniform(nodes, edge_count), nodes, 128),
            "power law": only_ours(graphs.power_law(nodes, edge_count, 100_000), nodes, 128),
        },
        7,
    )
    ratio = seconds["power law"] / seconds["uniform"]
    rows = [[name, f"{1e3 * s:.0f} ms"] for name, s in seconds.items()]
    text = [
        "## Hubs",
        "",
        f"Time of tgnn on two graphs with {nodes:,} nodes and {edge_count:,} edges. The power-law graph, which has one",
        f"node of degree 100,000, takes {ratio:.2f} times as long as the uniform graph.",
        "",
    ]
    return [*text, *table(["graph", "time"], rows), ""]


def scaling(arguments: argparse.Namespace) -> list[str]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    print("measuring scaling", flush=True)
    edge_counts = [312_500, 625_000, 1_250_000, 2_500_000, 5_000_000]
    ranks = [16, 32, 64, 128, 256]
    nodes = 100_000
    by_edges = side_by_side({str(e): only_ours(graphs.uniform(nodes, e), nodes, 64) for e in edge_counts}, 5)
    edges = graphs.uniform(nodes, 1_250_000)
    by_rank = side_by_side({str(r): only_ours(edges, nodes, r) for r in ranks}, 5)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, found, label, scale in (
        (axes[0], by_edges, "edges, millions (R = 64)", 1e6),
        (axes[1], by_rank, "rank R (1.25 million edges)", 1),
    ):
        x = [float(key) / scale for key in found]
        y = [1e3 * value for value in found.values()]
        axis.plot(x, y, "o-", color="#1f5fa8", label="measured")
        axis.plot([0, x[-1]], [0, y[-1]], "--", color="#999999", label="proportional")
        axis.set(xlabel=label, ylabel="forward + backward, ms", xlim=(0, None), ylim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    (DOCS / "images").mkdir(exist_ok=True)
    figure.savefig(DOCS / "images" / "scaling.png", dpi=130)
    text = ["## Scaling", "", f"Time by number of edges and by rank, for {nodes:,} nodes.", ""]
    text += ["![Forward and backward time by number of edges and by rank](images/scaling.png)", ""]
    rows = [
        ["edges", *(f"{int(k):,}" for k in by_edges)],
        ["ms, R = 64", *(f"{1e3 * v:.0f}" for v in by_edges.values())],
    ]
    text += [*table(rows[0], rows[1:]), ""]
    rows = [["rank", *by_rank], ["ms, E = 1,250,000", *(f"{1e3 * v:.0f}" for v in by_rank.values())]]
    return [*text, *table(rows[0], rows[1:]), ""]


def memory(arguments: argparse.Namespace) -> list[str]:
    nodes, edge_count = ARXIV
    rank = 128
    rows = []
    for kind, name in (
        ("mul", "PyG gather + scatter mul"),
        ("sum", "PyG gather + scatter sum"),
        ("cpp", "tgnn, cpp"),
        ("torch", "tgnn, torch"),
    ):
        print(f"measuring memory of {name}", flush=True)
        found = run_in_process("benchmarks.memory", kind, nodes, edge_count, rank)
        rows.append([name, f"{found['extra_gib']:.2f} GiB", f"{found['extra_gib'] * 2**30 / (4 * nodes * rank):.1f}"])
    array, matrix = 4 * nodes * rank / 2**30, 4 * edge_count * rank / 2**30
    text = [
        "## Memory",
        "",
        f"Peak memory of the forward and backward pass for N = {nodes:,}, E = {edge_count:,} and R = {rank}, in",
        "addition to z, the gradient of the result and the graph. It includes the result and the gradient of z, two",
        f"arrays of N x R. A message matrix, E x R, needs {matrix:.2f} GiB, and an array of N x R {array:.2f} GiB.",
        "",
    ]
    return [*text, *table(["", "extra memory", "in arrays of N x R"], rows), ""]


def large(arguments: argparse.Namespace) -> list[str]:
    nodes, edge_count, rank = 2_400_000, 124_000_000, 32
    print(f"measuring {nodes:,} nodes and {edge_count:,} edges (minutes)", flush=True)
    found = run_in_process("benchmarks.memory", "cpp", nodes, edge_count, rank)
    rows = [
        ["checking and sorting the graph, once", f"{found['group']:.1f} s"],
        ["forward", f"{found['forward']:.2f} s"],
        ["backward", f"{found['backward']:.2f} s"],
        ["peak memory beyond the graph and the inputs", f"{found['extra_gib']:.1f} GiB"],
        ["peak memory in total", f"{found['peak_gib']:.1f} GiB"],
        ["one message matrix, as PyG would need", f"{4 * edge_count * rank / 2**30:.1f} GiB"],
    ]
    text = [
        "## A large graph",
        "",
        f"{nodes:,} nodes, {edge_count:,} directed edges, R = {rank}, full batch.",
        "",
    ]
    return [*text, *table(["", ""], rows), ""]


def sampling(arguments: argparse.Namespace) -> list[str]:
    nodes, edge_count = 2_400_000, 124_000_000
    rows = []
    for kind, name in (("uniform", "uniform"), ("hubs", "power law, one node of degree 100,000")):
        print(f"measuring sampling, {name} (half a minute)", flush=True)
        found = run_in_process("benchmarks.sampling", kind, nodes, edge_count)
        edges = found.pop("edges in a batch")
        ours = found["tgnn"]
        for who, seconds in found.items():
            speed = [f"{1024 / seconds:,.0f}", f"{1e9 * seconds / edges:.0f} ns", f"{seconds / ours:.1f}"]
            rows.append([name, who, f"{1e3 * seconds:.2f} ms", *speed])
    text = [
        "## Sampling",
        "",
        f"{nodes:,} nodes, {edge_count:,} directed edges. Batches of 1,024 seed nodes with 5 neighbors per hop, two",
        f"hops, without replacement, about {edges:,.0f} edges per batch. One thread, as in a worker of a data loader.",
        "",
    ]
    header = ["graph", "", "per batch", "seed nodes per second", "per edge", "time / tgnn"]
    return [*text, *table(header, rows), ""]


def tables(arguments: argparse.Namespace) -> list[str]:
    nodes, edge_count = 1_000_000, 10_000_000
    rows = []
    for kind, name in (("int", "integers: 184467"), ("str", "strings: user_184467")):
        print(f"measuring tables, ids are {name}", flush=True)
        found = run_in_process("benchmarks.tables", kind, nodes, edge_count)
        seconds = [f"{found[what]:.1f} s" for what in ("read", "parse")]
        rows.append([name, f"{found['megabytes']:.0f} MB", *seconds, f"{found['extra_gib']:.1f} GiB"])
    text = [
        "## Tables",
        "",
        f"`read_table` on a folder of CSV files: {nodes:,} nodes with two features and a label, {edge_count:,} edges.",
        "This includes all checks, adding reverse edges and sorting the edges.",
        "",
    ]
    header = ["ids", "edges.csv", "read and check", "parse edges with polars only", "extra memory"]
    return [*text, *table(header, rows), ""]


def epochs(arguments: argparse.Namespace) -> list[str]:
    data = load("cora")
    rows: list[list[str]] = []
    for dropout in (0.0, 0.5):
        print(f"measuring epochs, dropout {dropout}", flush=True)
        seconds = side_by_side(layers.epochs(data, dropout), 15)
        base = seconds["PyG GCN"]
        ratios = (f"{s / base:.2f}" for s in list(seconds.values())[1:])
        rows.append([f"{dropout}", f"{1e3 * base:.1f} ms", *ratios])
    text = [
        "## A training epoch",
        "",
        "Cora, 2 layers, 32 hidden channels, Adam, full batch. Features are sparse for tGNN and dense for PyG. The",
        "column GCN is PyG's `GCN`. The other columns are the time of tGNN divided by that of GCN. The last column is",
        "the same network built from PyG modules.",
        "",
    ]
    header = ["dropout", "GCN", "rank 8", "rank 64", "rank 512", "rank 512, PyG modules"]
    return [*text, *table(header, rows), ""]


def stability(arguments: argparse.Namespace) -> list[str]:
    rows = []
    for name, data in (
        ("BlogCatalog", graphs.named("blogcatalog", arguments.data)),
        ("Amazon Computers", graphs.computers(arguments.data)),
    ):
        if data is None:
            rows.append([name, "not measured: could not be downloaded", "", "", ""])
            continue
        degree = int(torch.bincount(data.edge_index[1]).max())
        print(f"training on {name}, {arguments.seeds} seeds", flush=True)
        results = [layers.train(data, 32, seed) for seed in range(arguments.seeds)]
        first, last = (torch.tensor([run[i] for run in results]) for i in (0, 1))
        decreased = sum(run[1] < run[0] for run in results)
        losses = f"{first.mean():.3f} to {last.mean():.3f}"
        rows.append([name, f"{degree:,}", f"{sum(r[2] for r in results)} of {len(results)}", f"{decreased}", losses])
    text = [
        "## Graphs with hubs, full neighborhoods",
        "",
        f"tGNN with plain factors, rank 32, 200 epochs at learning rate 0.01, {arguments.seeds} seeds each.",
        "",
    ]
    header = [
        "",
        "largest degree",
        "seeds without NaN or inf",
        "seeds with decreasing loss",
        "mean loss, first to last epoch",
    ]
    return [*text, *table(header, rows), ""]


def exactness(arguments: argparse.Namespace) -> list[str]:
    print("measuring the accuracy of the layers of the theorems", flush=True)
    polynomials, sums = theory.tables()
    text = [
        "## Theorems",
        "",
        "Largest errors of the layers of `tgnn.theory` in float64, over 20 sets of k vectors.",
        "",
        "`cp_from_polynomial`, for a random polynomial of F features:",
        "",
    ]
    header = ["F", "k", "rank", "largest value", "error", "error / largest value"]
    text += [*table(header, polynomials), "", "`cp_sum` and `cp_mean`, for three features:", ""]
    text += [*table(["k", "error of `cp_sum`", "error of `cp_mean`"], sums), ""]
    return text


def first_use(arguments: argparse.Namespace) -> list[str]:
    print("measuring the first use", flush=True)
    rows = [[name, f"{value:.2f} s"] for name, value in startup.measure().items()]
    return ["## Startup", "", *table(["", "time"], rows), ""]


def training(arguments: argparse.Namespace) -> list[str]:
    rows = []
    root = str(arguments.data) if arguments.data.is_dir() else None
    for name, rounds in (("cora", 41), ("pubmed", 11)):
        print(f"measuring the loop on {name}", flush=True)
        bare, ours, times = paired(*loop.contenders(name, root), rounds)
        rows.append(
            [
                name,
                f"{1e3 * bare / loop.EPOCHS:.2f} ms",
                f"{1e3 * ours / loop.EPOCHS:.2f} ms",
                f"{times:.3f}",
            ]
        )
    text = [
        "## The training loop",
        "",
        "Median time of one epoch with validation, for a minimal loop in torch and for the loop of `tgnn train`. The",
        "two are measured alternately. The ratio is the median of the ratios of neighboring measurements, so it can",
        "differ from the ratio of the median times.",
        "",
    ]
    return [*text, *table(["", "plain torch", "tgnn", "ratio"], rows), ""]


def models_by_name(arguments: argparse.Namespace) -> list[str]:
    rows = []
    for name, (theirs, ours) in models.contenders(arguments.data).items():
        print(f"measuring {name}", flush=True)
        if theirs is None:
            alone = side_by_side({"ours": ours}, 5)["ours"]
            rows.append([name, "", f"{1e3 * alone:.1f} ms", ""])
            continue
        start = time.perf_counter()
        paired(theirs, ours, 1)
        rounds = round(10 / (time.perf_counter() - start))  # about five seconds each
        direct, own, times = paired(theirs, ours, min(max(rounds, 5), 101))
        rows.append([name, f"{1e3 * direct:.1f} ms", f"{1e3 * own:.1f} ms", f"{times:.2f}"])
    text = [
        "## Models by name",
        "",
        "Median time of one training step with 64 hidden channels and 2 layers, for a model written in PyG and for the",
        "model of `tgnn train --model NAME`. The data are Cora, Amazon Computers (490,000 edges), and 128 random",
        "graphs as large as those in ZINC (molecules). A cell is empty if no model in PyG was measured. The ratio is",
        "the median of the ratios of neighboring measurements.",
        "",
    ]
    return [*text, *table(["", "PyG", "tgnn", "ratio"], rows), ""]


def gated_blocks(arguments: argparse.Namespace) -> list[str]:
    print("measuring gated layers and blocks", flush=True)
    seconds = side_by_side(blocks.contenders(), 9)
    rows = []
    for name, value in seconds.items():
        layers_of_pyg = [
            f"{'block of ' if 'lock' in name else ''}PyG {conv}" for conv in ("ResGatedGraphConv", "PNAConv")
        ]
        ratios = [f"{value / seconds[other]:.2f}" for other in layers_of_pyg]
        extra = run_in_process("benchmarks.blocks", name)["extra_gib"]
        rows.append([name, f"{1e3 * value:.1f} ms", *ratios, f"{1024 * extra:.0f} MiB"])
    text = [
        "## Gated layers and blocks",
        "",
        f"A training step with Adam on a batch of {blocks.GRAPHS} graphs with {blocks.NODES} nodes and {blocks.EDGES}",
        f"edges each, as in CIFAR10, with {blocks.WIDTH} channels of nodes and edges, and rank {blocks.RANK}. A layer",
        "is compared with a layer of PyG. A block is compared with a layer of PyG that has the same normalization,",
        "residual connection and feed-forward sublayer. Median times. Memory is the peak of one step, without the",
        "model and its inputs.",
        "",
    ]
    header = ["", "time", "time / ResGatedGraphConv", "time / PNAConv", "extra memory"]
    return [*text, *table(header, rows), ""]


PARTS: dict[str, Callable[[argparse.Namespace], list[str]]] = {
    "speed": speed,
    "edges": factors_of_edges,
    "hubs": hubs,
    "scaling": scaling,
    "memory": memory,
    "large": large,
    "sampling": sampling,
    "tables": tables,
    "startup": first_use,
    "epochs": epochs,
    "stability": stability,
    "loop": training,
    "models": models_by_name,
    "blocks": gated_blocks,
    "theory": exactness,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"Benchmarks to run: {', '.join(PARTS)} (default: all)."
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("TGNN_DATA", "../shared/data")),
        help="Folder with data set files, searched before downloading (default: %(default)s).",
    )
    parser.add_argument(
        "--seeds", type=int, default=20, help="Number of random seeds of the benchmark stability (default: 20)."
    )
    parser.add_argument("--write", action="store_true", help="Write the selected benchmarks into docs/benchmarks.md.")
    arguments = parser.parse_args()
    if wrong := set(arguments.parts) - set(PARTS):
        parser.error(f"There is no benchmark {sorted(wrong)[0]!r}; choose from {', '.join(PARTS)}.")
    start = time.time()
    text = [
        "# Benchmarks",
        "",
        "This page compares the time and memory of tgnn with PyG and with plain torch. `make bench` repeats the",
        "measurements. Close other programs first.",
        "",
        f"Machine: {machine()}.",
        "",
        "N, E and R are the numbers of nodes, edges and columns (the CP rank).",
        "",
    ]
    with torch.random.fork_rng():
        for name in arguments.parts or PARTS:
            text += PARTS[name](arguments)
    report = "\n".join(text).rstrip() + "\n"
    print(report)
    if not arguments.parts or arguments.write:
        page = DOCS / "benchmarks.md"
        page.write_text(merged(page.read_text(), report) if arguments.parts else report)
        print(f"Wrote docs/benchmarks.md after {time.time() - start:.0f} s.")


def merged(page: str, report: str) -> str:
    """Replace the sections of the page by those of the report. New sections name their machine if it is another one."""
    head, *old = page.rstrip().split("\n## ")
    new_head, *new = report.rstrip().split("\n## ")
    here = "" if head.rstrip() == new_head.rstrip() else f"\n\nMeasured on: {machine()}."
    fresh = {}
    for section in new:
        title, _, text = section.partition("\n")
        fresh[title] = f"{title}{here}\n{text.rstrip()}"
    sections = [fresh.pop(section.partition("\n")[0], section.rstrip()) for section in old]
    return "\n\n## ".join([head.rstrip(), *sections, *fresh.values()]) + "\n"


if __name__ == "__main__":
    main()
