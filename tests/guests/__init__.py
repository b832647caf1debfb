# SPDX-License-Identifier: Apache-2.0
"""Other kernels and distributions, booted under QEMU: `python -m tests.guests --help`."""
