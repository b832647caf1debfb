# SPDX-License-Identifier: Apache-2.0
"""What several commands need from the host: names of `profiler.requirements.ALL`.

A command's `NEEDS` lists what it needs in addition to Python. The names are here since an import of
that package would slow down every `--help`.
"""

PROFILE = ("root", "pids", "btf", "bcc", "bpf", "tracefs")
PULL = (*PROFILE, "syncfs", "boto3")
LAB = ("root", "xfsprogs", "e2fsprogs", "losetup", "blkio", "hugepages")
