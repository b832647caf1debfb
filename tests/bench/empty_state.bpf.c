// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The same for the event of a task that compares dirty pages with the thresholds. */
RAW_TRACEPOINT_PROBE(global_dirty_state) {
    return 0;
}
