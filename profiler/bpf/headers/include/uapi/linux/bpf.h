// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Empty: BCC brings its own copy of this header. */
