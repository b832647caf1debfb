// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Why threads in scope wait: each period off the CPU during a call has one cause. Dirty throttling
 * announces its sleep (mm/page-writeback.c, balance_dirty_pages): the tracepoint fires before it;
 * with pause <= 0 there is no sleep. BCC takes the fields from the tracepoint's format, because
 * their order and names vary between kernels.
 *
 * sched_switch fires on the CPU of the thread that leaves, and sched_wakeup only after that
 * (kernel/sched/core.c, try_to_wake_up waits for on_cpu), so a thread's state has one writer at a
 * time.
 */
#define NS_PER_MS    1000000ull
#define STALLED_MAX  1024
#define TASK_BLOCKED 0xff /* include/linux/sched.h: all states but running */

/* profiler/bpf/probes/waits.py decodes it. */
struct stall {
    u64 events;
    u64 pauses;
    u64 pause_planned_ns;
    u64 pause_slept_ns;
    u64 dirty_max_pages;
    u64 limit_max_pages;
};

/* The command that sleeps, and the backing device that it waits for. */
struct stalled {
    char comm[16]; /* TASK_COMM_LEN */
    char bdi[32];  /* as in the tracepoint */
};

BPF_F_TABLE("hash", struct stalled, u64, stalled_writers, STALLED_MAX, 0);
BPF_F_TABLE("array", u32, struct stall, stalls, BANKS *CPU_COUNT, BPF_F_MMAPABLE);

static __always_inline struct stall *stall_of_cpu(struct config *config) {
    u32 key = (config->bank & 1) * CPU_COUNT + bpf_get_smp_processor_id();
    return stalls.lookup(&key);
}

static __always_inline void count_stalled(const char *bdi, u64 planned_ns) {
    struct stalled key = {};
    u64 none = 0, *sum_ns;

    bpf_get_current_comm(&key.comm, sizeof(key.comm));
    bpf_probe_read_kernel_str(&key.bdi, sizeof(key.bdi), bdi);
    sum_ns = stalled_writers.lookup_or_try_init(&key, &none);
    if (sum_ns) /* else the table is full; `stalls` still counts it */
        __sync_fetch_and_add(sum_ns, planned_ns);
}

TRACEPOINT_PROBE(writeback, balance_dirty_pages) {
    struct config *config = config_of_session();
    struct thread *thread = current_thread();
    long pause_ms = args->pause;
    u64 dirty_pages = args->dirty, limit_pages = args->limit;
    struct stall *stall;

    if (!config || !in_scope(config, thread))
        return 0;
    stall = stall_of_cpu(config);
    if (!stall)
        return 0;
    stall->events++;
    if (pause_ms > 0) {
        stall->pauses++;
        stall->pause_planned_ns += pause_ms * NS_PER_MS;
        count_stalled(args->bdi, pause_ms * NS_PER_MS);
        if (thread)
            thread->pausing = 1;
    }
    if (dirty_pages > stall->dirty_max_pages)
        stall->dirty_max_pages = dirty_pages;
    if (limit_pages > stall->limit_max_pages)
        stall->limit_max_pages = limit_pages;
    return 0;
}

/* Ends the wait since left_ns, or its current cause. */
static __always_inline void end_wait(struct config *config, struct thread *thread, u64 now_ns) {
    u64 waited_ns = now_ns - thread->left_ns;
    u32 cause = thread->cause;

    if (cause > QUEUED)
        return;
    if (thread->slots)
        thread->waits_ns[cause] += waited_ns;
    if (cause == THROTTLED) {
        struct stall *stall = stall_of_cpu(config);

        thread->pausing = 0;
        if (stall)
            stall->pause_slept_ns += waited_ns;
    }
}

static __always_inline u32 cause_of_leaving(struct thread *thread, long state) {
    u8 flags = 0;

    if (!(state & TASK_BLOCKED))
        return QUEUED; /* preempted by another thread */
    if (thread->pausing)
        return THROTTLED;
    bpf_probe_read_kernel(&flags, sizeof(flags),
                          (void *)(bpf_get_current_task() + OFFSET_TASK_IOWAIT));
    return flags >> BIT_TASK_IOWAIT & 1 ? DEVICE_WAIT : SLEEPING;
}

TRACEPOINT_PROBE(sched, sched_switch) {
    struct config *config = config_of_session();
    u32 before = args->prev_pid, after = args->next_pid;
    struct thread *thread;

    if (!config)
        return 0;
    thread = threads.lookup(&before);
    if (thread && (thread->slots || thread->pausing)) {
        thread->cause = cause_of_leaving(thread, args->prev_state);
        thread->left_ns = bpf_ktime_get_ns();
    }
    thread = threads.lookup(&after);
    if (thread && thread->left_ns) {
        end_wait(config, thread, bpf_ktime_get_ns());
        thread->left_ns = 0;
    }
    return 0;
}

/*
 * From now on the thread waits for a CPU. A raw tracepoint, because wake-ups come in interrupts:
 * the kernel skips a tracepoint's program that interrupts any other (kernel/trace/bpf_trace.c,
 * trace_call_bpf).
 */
RAW_TRACEPOINT_PROBE(sched_wakeup) {
    struct config *config = config_of_session();
    u32 tid = 0;
    struct thread *thread;
    u64 now_ns;

    bpf_probe_read_kernel(&tid, sizeof(tid), (void *)(ctx->args[0] + OFFSET_TASK_PID));
    thread = threads.lookup(&tid);
    if (!config || !thread || !thread->left_ns || thread->cause == QUEUED)
        return 0;
    now_ns = bpf_ktime_get_ns();
    end_wait(config, thread, now_ns);
    thread->cause = QUEUED;
    thread->left_ns = now_ns;
    return 0;
}
