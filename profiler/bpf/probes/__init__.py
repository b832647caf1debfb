"""One `.bpf.c` and `.py` pair per probe; the C only counts, the Python names and decodes."""
