// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* BCC includes this before the program; its helpers.h looks at one option only. */
#define CONFIG_BPF_SYSCALL 1
