"""What several commands need of the host: names of `profiler.requirements.ALL`.

A command says what it needs, beside Python, as its `NEEDS`. Here, since that package's import would
slow every `--help` down.
"""

PROFILE = ("root", "pids", "btf", "bcc", "bpf", "tracefs")
PULL = (*PROFILE, "syncfs", "boto3")
LAB = ("root", "xfsprogs", "e2fsprogs", "losetup", "blkio", "hugepages")
