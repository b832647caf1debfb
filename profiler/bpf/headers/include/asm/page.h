// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Included by BCC; no probe uses what the kernel has here. */
