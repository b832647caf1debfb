// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The floor: the cost of a program on a tracepoint that does nothing. */
int nothing(void *context) {
    return 0;
}
