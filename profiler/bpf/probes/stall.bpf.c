/*
 * The sleeps that dirty throttling gives the writers in scope (mm/page-writeback.c,
 * balance_dirty_pages). The tracepoint fires before the sleep, and without one when pause <= 0.
 * BCC takes the fields from the tracepoint's own format, as their order varies between kernels.
 */
#define NS_PER_MS 1000000ull

/* As profiler/bpf/probes/stall.py decodes it. */
struct stall {
    u64 events;
    u64 pauses;
    u64 pause_total_ns;
    u64 dirty_max_pages;
    u64 limit_max_pages;
};

BPF_F_TABLE("array", u32, struct stall, stalls, BANKS *CPU_COUNT, BPF_F_MMAPABLE);

TRACEPOINT_PROBE(writeback, balance_dirty_pages) {
    struct config *config = config_of_session();
    u32 tid = bpf_get_current_pid_tgid();
    long pause_ms = args->pause;
    u64 dirty_pages = args->dirty, limit_pages = args->limit;
    struct stall *stall;
    u32 key;

    if (!config || (!config->host_wide && !threads.lookup(&tid)))
        return 0;
    key = (config->bank & 1) * CPU_COUNT + bpf_get_smp_processor_id();
    stall = stalls.lookup(&key);
    if (!stall)
        return 0;
    stall->events++;
    if (pause_ms > 0) {
        stall->pauses++;
        stall->pause_total_ns += pause_ms * NS_PER_MS;
    }
    if (dirty_pages > stall->dirty_max_pages)
        stall->dirty_max_pages = dirty_pages;
    if (limit_pages > stall->limit_max_pages)
        stall->limit_max_pages = limit_pages;
    return 0;
}
