// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What the session's probes share: the threads they follow, their settings and their losses.
 *
 * All maps but the hashes are arrays mapped to user space, with an entry per CPU. So reading needs
 * no system call: a bpf() call on a map disables all tracing programs on its CPU
 * (kernel/bpf/syscall.c, bpf_disable_instrumentation), which would lose calls. A tracepoint's
 * program runs with preemption off (kernel/trace/bpf_trace.c, trace_call_bpf), so a CPU's entry has
 * one writer and needs no atomic operations.
 *
 * There are two banks of counters. User space clears the unused one, then switches `bank`. So
 * counters are reset between two calls, and no call is split.
 */
#define BANKS 2

/* profiler/bpf/probes/scope.py has their names. */
enum loss {
    THREADS_NOT_FOLLOWED,
    CALLS_NOT_RECORDED,
    CALLS_WITHOUT_ENTRY,
    CALLS_WITHOUT_EXIT,
    CALLS_OVERWRITTEN,
    PATHS_TOO_DEEP,
    PATHS_NOT_READ,
    AIO_REQUESTS,
    URING_ENDS_UNSEEN,
    LOSS_KINDS,
};

/* Why a call spends time off the CPU; contracts.stats.CallStats has the names. */
enum cause {
    THROTTLED,    /* dirty throttling */
    DEVICE_WAIT,  /* block I/O */
    SLEEPING,     /* anything else: locks, memory */
    QUEUED,       /* for a CPU */
    ASYNCHRONOUS, /* a request to io_uring: no thread waits */
    CAUSES,
};

/*
 * A thread in scope. `slots` has a bit for each slot that may count its call in flight; `value` is
 * saved on entry for the exit. `entered` is set during every call whose entry was seen, counted or
 * not. `left_ns` is when it left its CPU, 0 while it runs. `pausing` is set from the announcement
 * of a pause for dirty throttling to its end. `epoch` is that of its last write. `unbacked` is set
 * during a call on a file that exists only in memory.
 */
struct thread {
    u64 start_ns;
    u64 value;
    u64 left_ns;
    u64 waits_ns[CAUSES];
    u32 slots;
    u32 entered;
    u32 call_type;
    u32 cause;
    u32 pausing;
    u32 epoch;
    u32 unbacked;
    u32 zero;
};

/* The types of calls, in the order of contracts.model.CallType. */
enum call_type {
    OPEN,
    CREATE,
    DELETE,
    FSCHANGE,
    READ,
    WRITE,
    SEEK,
    MMAP,
    GLOB,
    ACCESS,
    CONNECT,
    ACCEPT,
    FSYNC,
    CALL_TYPES,
};

struct config {
    u32 bank;
    u32 host_wide;
    u32 epoch;
    u32 slots_of_root; /* slots of the path `/` */
    u32 slots_of_places;
    u32 filter_of_places; /* a bit for the inode number of each place, modulo 32 */
    u32 slots_of_type[CALL_TYPES];
};

struct tally {
    u64 losses[BANKS * LOSS_KINDS]; /* flat, because BCC reports no size for nested arrays */
    u64 writers[BANKS];
    u64 opened; /* opened - closed calls are in flight; never reset */
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

static __always_inline void lose_many(struct config *config, enum loss kind, u64 number) {
    struct tally *tally = tally_of_cpu();
    if (tally)
        tally->losses[(config->bank & 1) * LOSS_KINDS + kind] += number;
}

static __always_inline void lose(struct config *config, enum loss kind) {
    lose_many(config, kind, 1);
}

static __always_inline struct thread *current_thread(void) {
    u32 tid = bpf_get_current_pid_tgid();
    return threads.lookup(&tid);
}

/* Whether the current thread's calls count; `thread` is its state if it is followed. */
static __always_inline int in_scope(struct config *config, struct thread *thread) {
    return (thread || config->host_wide) && passes_filter();
}

static __always_inline void close_call(struct thread *thread, struct tally *tally) {
    thread->slots = 0;
    if (tally)
        tally->closed++;
}
