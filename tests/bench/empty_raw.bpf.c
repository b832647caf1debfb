// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The cheapest program that an event of the kernel can have: nothing, on the raw tracepoint. */
RAW_TRACEPOINT_PROBE(writeback_dirty_folio) {
    return 0;
}
