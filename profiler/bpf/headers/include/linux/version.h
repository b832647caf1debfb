// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Nothing here depends on the kernel's version; BCC asks for the macros all the same. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE      KERNEL_VERSION(5, 3, 0)
