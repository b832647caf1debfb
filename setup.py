"""Metadata and dependencies of Writewise; tool settings are in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    name="writewise",
    version="0.1.0",
    description="A Linux host I/O profiler and sysctl advisor for nodes that pull data from S3",
    python_requires=">=3.9",  # Amazon Linux 2023's own Python, which its BCC binding needs
    packages=find_packages(include=["contracts*", "sysctl*", "profiler*"]),
    include_package_data=True,
    package_data={
        "contracts": ["library/*"],
        "profiler.bpf": ["probes/*.bpf.c", "probes/*.bpf.h", "headers/**/*.h"],
    },
    # BCC is missing here on purpose: `bcc` on PyPI is another project. Ours comes from the
    # distribution (tools/setup), and the virtual environment sees it by system site packages.
    install_requires=[
        "awscrt>=0.20",  # CRC-32C and CRC-64/NVME, the checksums that S3 gives, in C
        "boto3>=1.34",
        "psutil>=5.9",
        "pyyaml>=6.0",
        "rich>=13.0",
    ],
    extras_require={
        "test": ["pytest>=8.0", "moto[s3,server]>=5.0", "hypothesis>=6.0"],
        "check": ["ruff>=0.6", "mypy>=1.11", "import-linter>=2.0", "types-PyYAML", "types-psutil"],
    },
    entry_points={"console_scripts": ["writewise = profiler.cli.main:main"]},
)
