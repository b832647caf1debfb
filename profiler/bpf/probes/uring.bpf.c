// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Reads, writes and syncs through io_uring, for which no system call's tracepoint fires. They are
 * timed from submission to completion, while the thread continues.
 */
#define REQ_F_FIXED_FILE   1 /* include/linux/io_uring_types.h */
#define REQ_F_CQE_SKIP     (1 << 6)
#define URING_REQUESTS_MAX 16384

/* include/uapi/linux/io_uring.h, enum io_uring_op: the values never change. */
enum uring_operation {
    URING_READV = 1,
    URING_WRITEV = 2,
    URING_FSYNC = 3,
    URING_READ_FIXED = 4,
    URING_WRITE_FIXED = 5,
    URING_SYNC_FILE_RANGE = 8,
    URING_READ = 22,
    URING_WRITE = 23,
    URING_SPLICE = 30,      /* the request's file is the target */
    URING_READV_FIXED = 60, /* since Linux 6.15 */
    URING_WRITEV_FIXED = 61,
};

/* Requests in flight by the address of struct io_kiocb, each like a call of a thread. */
BPF_F_TABLE("hash", u64, struct thread, uring_requests, URING_REQUESTS_MAX, 0);

static __always_inline u32 type_of(u8 operation) {
    switch (operation) {
    case URING_READV:
    case URING_READ_FIXED:
    case URING_READ:
    case URING_READV_FIXED:
        return READ;
    case URING_WRITEV:
    case URING_WRITE_FIXED:
    case URING_WRITE:
    case URING_SPLICE:
    case URING_WRITEV_FIXED:
        return WRITE;
    case URING_FSYNC:
    case URING_SYNC_FILE_RANGE:
        return FSYNC;
    default:
        return CALL_TYPES;
    }
}

/* The ring's kernel thread (IORING_SETUP_SQPOLL) submits for its process. */
static __always_inline struct thread *submitter(void) {
    u32 process = bpf_get_current_pid_tgid() >> 32;
    struct thread *thread = current_thread();

    return thread ? thread : threads.lookup(&process);
}

TRACEPOINT_PROBE(io_uring, io_uring_submit_req) {
    struct config *config = config_of_session();
    struct tally *tally = tally_of_cpu();
    u64 request = (u64)args->req;
    u32 call_type = type_of(args->opcode);
    struct thread call = {.entered = 1, .call_type = call_type};
    u64 wanted, slots;

    if (!config || !tally || call_type >= CALL_TYPES || !in_scope(config, submitter()))
        return 0;
    wanted = config->slots_of_type[call_type];
    if (!(args->flags & REQ_F_FIXED_FILE)) {
        slots =
            slots_of_descriptor(half_at(request + OFFSET_REQUEST_DESCRIPTOR), call_type, config);
    } else { /* a registered file cannot be found by its number */
        slots = wanted & config->slots_of_root;
        if (wanted & config->slots_of_places)
            lose(config, PATHS_NOT_READ);
    }
    if (!slots)
        return 0;
    if (args->flags & REQ_F_CQE_SKIP) {
        lose(config, URING_ENDS_UNSEEN);
        return 0;
    }
    call.slots = slots;
    call.unbacked = slots >> 32 & 1;
    if (uring_requests.lookup(&request))
        tally->closed++; /* the end of its predecessor was lost, and reported */
    call.start_ns = bpf_ktime_get_ns();
    if (uring_requests.update(&request, &call))
        lose(config, CALLS_NOT_RECORDED);
    else
        tally->opened++;
    return 0;
}

TRACEPOINT_PROBE(io_uring, io_uring_complete) {
    struct config *config = config_of_session();
    u64 request = (u64)args->req, end_ns = bpf_ktime_get_ns();
    struct thread *call = uring_requests.lookup(&request);

    if (!config || !call)
        return 0;
    call->epoch = config->epoch; /* its thread did not wait, so it does not count as a writer */
    call->waits_ns[ASYNCHRONOUS] = end_ns - call->start_ns;
    leave(config, call, args->res, end_ns);
    uring_requests.delete(&request);
    return 0;
}

#ifdef USE_uring_handed_on
/* A write that would have paused was passed to a worker: this thread takes no announced pause. */
int uring_handed_on(void *unused) {
    struct thread *thread = current_thread();

    if (thread)
        thread->pausing = 0;
    return 0;
}
#endif

#ifdef USE_uring_overflow
/* The completion queue is full: some request ended, and the event does not say which. */
int uring_overflow(void *unused) {
    struct config *config = config_of_session();

    if (config && in_scope(config, submitter()))
        lose(config, URING_ENDS_UNSEEN);
    return 0;
}
#endif
