"""Other kernels and distributions, booted under QEMU: `python -m tests.guests --help`."""
