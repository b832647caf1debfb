// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * How long the kernel makes the writers of the whole host sleep (mm/page-writeback.c,
 * balance_dirty_pages). The tracepoint fires only above the free-running level, so a write that is
 * not throttled costs nothing. With pause <= 0 there is no sleep.
 *
 * Counters only grow, an entry for each CPU, mapped to user space (see scope.bpf.h).
 */
#define THROTTLING_NS_PER_MS 1000000ull

/* profiler/bpf/probes/throttling.py decodes it. */
struct throttling {
    u64 pauses;
    u64 planned_ns;
};

BPF_F_TABLE("array", u32, struct throttling, throttlings, CPU_COUNT, BPF_F_MMAPABLE);

TRACEPOINT_PROBE(writeback, balance_dirty_pages) {
    u32 cpu = bpf_get_smp_processor_id();
    long pause_ms = args->pause;
    struct throttling *counted;

    if (pause_ms <= 0)
        return 0;
    counted = throttlings.lookup(&cpu);
    if (!counted)
        return 0;
    counted->pauses++;
    counted->planned_ns += pause_ms * THROTTLING_NS_PER_MS;
    return 0;
}
