// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The host's dirty limits as write-back last computed them, in pages (mm/page-writeback.c). */

/* profiler/bpf/probes/dirty_limit.py decodes it. */
struct dirty_state {
    u64 events;
    u64 limit_pages;
    u64 threshold_pages;
    u64 background_pages;
    u64 dirty_pages;
};

BPF_F_TABLE("array", u32, struct dirty_state, dirty_states, 1, BPF_F_MMAPABLE);

TRACEPOINT_PROBE(writeback, global_dirty_state) {
    u32 only = 0;
    struct dirty_state *state = dirty_states.lookup(&only);

    if (!state)
        return 0;
    state->limit_pages = args->dirty_limit;
    state->threshold_pages = args->dirty_thresh;
    state->background_pages = args->background_thresh;
    state->dirty_pages = args->nr_dirty;
    __sync_fetch_and_add(&state->events, 1);
    return 0;
}
