/*
 * Why threads in scope wait: each time off the CPU while a call is open has one cause. Dirty
 * throttling announces its sleep (mm/page-writeback.c, balance_dirty_pages): the tracepoint fires
 * before it, and without one when pause <= 0. BCC takes its fields from the tracepoint's own
 * format, as their order and names vary between kernels.
 *
 * sched_switch fires on the CPU of the thread that leaves, and sched_wakeup only once that has
 * happened (kernel/sched/core.c, try_to_wake_up waits for on_cpu), so a thread's state has one
 * writer at a time.
 */
#define NS_PER_MS    1000000ull
#define TASK_BLOCKED 0xff /* include/linux/sched.h: the states that are no running */

/* As profiler/bpf/probes/waits.py decodes it. */
struct stall {
    u64 events;
    u64 pauses;
    u64 pause_planned_ns;
    u64 pause_slept_ns;
    u64 dirty_max_pages;
    u64 limit_max_pages;
};

BPF_F_TABLE("array", u32, struct stall, stalls, BANKS *CPU_COUNT, BPF_F_MMAPABLE);

static __always_inline struct stall *stall_of_cpu(struct config *config) {
    u32 key = (config->bank & 1) * CPU_COUNT + bpf_get_smp_processor_id();
    return stalls.lookup(&key);
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
        if (thread)
            thread->pausing = 1;
    }
    if (dirty_pages > stall->dirty_max_pages)
        stall->dirty_max_pages = dirty_pages;
    if (limit_pages > stall->limit_max_pages)
        stall->limit_max_pages = limit_pages;
    return 0;
}

/* The wait that has lasted since left_ns is over, or changes its cause. */
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
        return QUEUED; /* another thread took its CPU */
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
 * From here on it waits for a CPU. Raw, since wake-ups come in interrupts: the kernel leaves out a
 * tracepoint's program where it interrupts any other (kernel/trace/bpf_trace.c, trace_call_bpf).
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
