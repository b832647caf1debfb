// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Counts calls by slot, which one or several rules use: a path, types of calls and a range of
 * sizes. On entry the file determines the possible slots, on exit the bytes moved select among
 * them.
 *
 * A program on a system call's tracepoint receives these words (kernel/trace/trace_syscalls.c,
 * struct syscall_tp_t), with only as many `arguments` as the call has. So one program serves many
 * calls.
 */
struct sys_enter {
    u64 unused;
    long number;
    u64 arguments[6];
};

struct sys_exit {
    u64 unused;
    long number;
    long returned;
};

/*
 * The same program may serve the function behind the call instead (profiler/bpf/functions.py): its
 * context is the function's argument, a struct pt_regs, and on exit its result.
 */
#ifdef BY_FUNCTIONS
#define ARGUMENT(call, at) (*(u64 *)(*(u64 *)(call) + OFFSET_ARGUMENT_##at))
#define RETURNED(call)     ((long)((u64 *)(call))[1])
#else
#define ARGUMENT(call, at) ((call)->arguments[at])
#define RETURNED(call)     ((call)->returned)
#endif

#define ERRNO_MAX 4095 /* include/linux/err.h: values from -ERRNO_MAX to -1 are errors */

/* profiler/bpf/probes/calls.py decodes it. */
struct call_stats {
    u64 count;
    u64 bytes;
    u64 failed;
    u64 latency_total_ns;
    u64 latency_min_ns;
    u64 latency_max_ns;
    u64 unbacked_bytes; /* of files that exist only in memory */
    u64 waits_ns[CAUSES];
    u64 buckets[BUCKET_COUNT];
};

struct size_range {
    u64 min_bytes;
    u64 max_bytes;
};

BPF_F_TABLE("array", u32, struct size_range, size_ranges, SLOT_COUNT, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct call_stats, calls, BANKS * CPU_COUNT * SLOT_COUNT, BPF_F_MMAPABLE);

/* Notes that a call began, whether or not it counts. */
static __always_inline void note_entry(struct config *config, struct thread *thread) {
    if (!thread)
        return;
    if (thread->slots) {
        lose(config, CALLS_OVERWRITTEN);
        close_call(thread, tally_of_cpu());
    }
    thread->entered = 1;
}

/*
 * Opens a call for the slots, if there are any. Must be called last, so that no latency includes
 * the probe's own work. Host-wide, a thread is followed from its first such call on.
 */
static __always_inline int open_call(struct config *config, struct thread *thread, u32 call_type,
                                     u64 slots, u64 value) {
    struct tally *tally;

    if (!slots)
        return 0;
    tally = tally_of_cpu();
    if (!tally)
        return 0;
    if (!thread) {
        struct thread inside = {.entered = 1};
        u32 tid = bpf_get_current_pid_tgid();

        threads.update(&tid, &inside);
        thread = threads.lookup(&tid);
    }
    if (!thread) {
        lose(config, CALLS_NOT_RECORDED);
        return 0;
    }
    tally->opened++;
    thread->slots = slots;
    thread->unbacked = slots >> 32 & 1;
    thread->call_type = call_type;
    thread->value = value;
    thread->pausing = 0;
    for (u32 cause = 0; cause < CAUSES; cause++)
        thread->waits_ns[cause] = 0;
    thread->start_ns = bpf_ktime_get_ns();
    return 0;
}

static __always_inline u64 bytes_moved(struct thread *thread, long returned) {
    switch (thread->call_type) {
    case READ:
    case WRITE:
        return returned;
    case SEEK:
        return returned > (long)thread->value ? returned - thread->value : thread->value - returned;
    case MMAP:
        return thread->value;
    default:
        return 0;
    }
}

static __always_inline void count(struct call_stats *stats, struct thread *thread, u64 bytes,
                                  u64 latency_ns, u32 index) {
    u64 *bucket = bucket_at(stats->buckets, index);

    if (!stats->count || latency_ns < stats->latency_min_ns)
        stats->latency_min_ns = latency_ns;
    if (latency_ns > stats->latency_max_ns)
        stats->latency_max_ns = latency_ns;
    stats->count++;
    stats->bytes += bytes;
    stats->latency_total_ns += latency_ns;
    if (thread->unbacked)
        stats->unbacked_bytes += bytes;
    for (u32 cause = 0; cause < CAUSES; cause++)
        stats->waits_ns[cause] += thread->waits_ns[cause];
    if (bucket)
        (*bucket)++;
}

static __always_inline void count_writer(struct config *config, struct thread *thread,
                                         struct tally *tally) {
    if (thread->epoch == config->epoch || !tally)
        return;
    thread->epoch = config->epoch;
    tally->writers[config->bank & 1]++;
}

/* Counts a call that ended at `end_ns` in the slots that it was opened for. */
static __always_inline int leave(struct config *config, struct thread *thread, long returned,
                                 u64 end_ns) {
    u32 cpu = bpf_get_smp_processor_id(), first, index;
    u64 slots, bytes, latency_ns;
    int failed = (u64)returned >= (u64)-ERRNO_MAX;
    struct tally *tally;

    if (!config || !thread)
        return 0;
    /* A call that seccomp answers has no entry (kernel/entry/common.c), and moves no bytes. */
    if (!thread->entered && returned > 0)
        lose(config, CALLS_WITHOUT_ENTRY);
    thread->entered = 0;
    thread->pausing = 0; /* a write with RWF_NOWAIT does not take the announced pause */
    if (!thread->slots)
        return 0;
    slots = thread->slots;
    latency_ns = end_ns - thread->start_ns;
    bytes = bytes_moved(thread, returned);
    tally = tally_of_cpu();
    close_call(thread, tally);
    if (thread->call_type == WRITE)
        count_writer(config, thread, tally);
    index = bucket_of(latency_ns); /* here, so that the verifier follows it once */
    first = ((config->bank & 1) * CPU_COUNT + cpu) * SLOT_COUNT;
    for (u32 slot = 0; slot < SLOT_COUNT; slot++) {
        struct call_stats *stats;
        struct size_range *range;
        u32 key = first + slot, range_key = slot; /* the loop's counter must have no pointer */

        if (!(slots >> slot & 1))
            continue;
        stats = calls.lookup(&key);
        range = size_ranges.lookup(&range_key);
        if (!stats || !range)
            continue;
        if (failed)
            stats->failed++;
        else if (range->min_bytes <= bytes && bytes <= range->max_bytes)
            count(stats, thread, bytes, latency_ns, index);
    }
    return 0;
}

int leave_call(struct sys_exit *call) {
    u64 end_ns = bpf_ktime_get_ns();
    return leave(config_of_session(), current_thread(), RETURNED(call), end_ns);
}
