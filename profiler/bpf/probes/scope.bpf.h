/*
 * What the session's probes share: which threads they follow, how they are set, what they lost.
 *
 * Every map but the hashes is an array that user space has mapped, one entry for each CPU. So
 * reading takes no system call: a bpf() call on a map keeps all tracing programs of its CPU off
 * while it runs (kernel/bpf/syscall.c, bpf_disable_instrumentation), and calls would go missing.
 * A tracepoint's program runs with preemption off (kernel/trace/bpf_trace.c, trace_call_bpf), so a
 * CPU's entry has one writer and needs no atomic operation.
 *
 * Counters exist twice. User space empties the bank that is not in use, then switches `bank`: so
 * they are set to zero between two calls, and no call is split.
 */
#define BANKS 2

/* As profiler/bpf/probes/scope.py names them. */
enum loss {
    THREADS_NOT_FOLLOWED,
    CALLS_NOT_RECORDED,
    CALLS_WITHOUT_ENTRY,
    CALLS_WITHOUT_EXIT,
    CALLS_OVERWRITTEN,
    PATHS_TOO_DEEP,
    LOSS_KINDS,
};

/*
 * A thread in scope. `slots` has a bit for each counter that its call in flight may go to.
 * `entered` is set in every call that was seen to begin, also in one of no counter.
 */
struct thread {
    u64 start_ns;
    u32 slots;
    u32 entered;
};

struct config {
    u32 bank;
    u32 host_wide;
    u32 slots_of_root; /* counters of the path `/` */
    u32 slots_of_places;
    u32 filter_of_places; /* a bit for each inode number of a place, modulo 32 */
};

struct tally {
    u64 losses[BANKS * LOSS_KINDS]; /* flat: BCC tells Python the size of no other */
    u64 opened; /* calls begun and ended since the load, never reset: the rest is in flight */
    u64 closed;
};

BPF_F_TABLE("hash", u32, struct thread, threads, MAX_THREADS, 0);
BPF_F_TABLE("array", u32, struct config, settings, 1, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct tally, tallies, CPU_COUNT, BPF_F_MMAPABLE);

static __always_inline struct config *config_of_session(void) {
    u32 only = 0;
    return settings.lookup(&only);
}

static __always_inline struct tally *tally_of_cpu(void) {
    u32 cpu = bpf_get_smp_processor_id();
    return tallies.lookup(&cpu);
}

static __always_inline void lose(struct config *config, enum loss kind) {
    struct tally *tally = tally_of_cpu();
    if (tally)
        tally->losses[(config->bank & 1) * LOSS_KINDS + kind]++;
}

static __always_inline void close_call(struct thread *thread) {
    struct tally *tally = tally_of_cpu();
    thread->slots = 0;
    if (tally)
        tally->closed++;
}
