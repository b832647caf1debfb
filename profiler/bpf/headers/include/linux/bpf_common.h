/* Included by BCC; no probe uses what the kernel has here. */
