// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Only named, by functions of BCC's helpers.h that no tracepoint program calls. */
struct pt_regs;
