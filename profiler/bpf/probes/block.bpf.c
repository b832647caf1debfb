// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Times the requests of a fixed set of disks, from when the driver receives one to its completion
 * (block/blk-mq.c: blk_mq_start_request, blk_update_request, blk_complete_request).
 *
 * It uses raw tracepoints, because many requests complete in an interrupt: the kernel skips a
 * tracepoint's program if it interrupts *any* other (kernel/trace/bpf_trace.c, trace_call_bpf), a
 * raw one's only if it interrupts itself. Offsets of a request's members come from BTF.
 *
 * Counters only grow; user space takes the difference of two readings. Each CPU has its own
 * counters, mapped to user space (see scope.bpf.h).
 */
#define SECTOR_LOG2        9
#define REQUESTS_MAX       16384
#define DEVICE_MINOR_BITS  20   /* include/linux/kdev_t.h */
#define REQ_OP_MASK        0xff /* include/linux/blk_types.h: REQ_OP_READ is 0, REQ_OP_WRITE 1 */
#define REQUEST_DIRECTIONS 2

/* profiler/bpf/probes/block.py decodes it. */
struct request_stats {
    u64 count;
    u64 bytes;
    u64 failed;
    u64 untimed; /* those of `count` whose start was not seen */
    u64 latency_total_ns;
    u64 latency_min_ns;
    u64 latency_max_ns;
    u64 buckets[BUCKET_COUNT];
};

/* A request that the driver holds. The kernel reuses its struct request for later requests. */
struct issued {
    u64 start_ns;
    u64 bytes_left;
};

BPF_F_TABLE("hash", u32, u32, block_devices, DEVICE_COUNT, 0);
BPF_F_TABLE("hash", u64, struct issued, requests, REQUESTS_MAX, 0);
BPF_F_TABLE("array", u32, struct request_stats, device_requests,
            CPU_COUNT * DEVICE_COUNT * REQUEST_DIRECTIONS, BPF_F_MMAPABLE);

static __always_inline u64 request_word(u64 address) {
    u64 word = 0;
    bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
    return word;
}

static __always_inline u32 request_half(u64 address) {
    u32 half = 0;
    bpf_probe_read_kernel(&half, sizeof(half), (void *)address);
    return half;
}

/*
 * The counters for this request, or NULL for another disk and for requests that move no data
 * (flushes, discards, zeroing). The disk is a whole one, never a partition.
 */
static __always_inline struct request_stats *stats_of(u64 request) {
    u32 direction = request_half(request + OFFSET_REQUEST_FLAGS) & REQ_OP_MASK;
    u64 disk;
    u32 device, key, *index;

    if (direction >= REQUEST_DIRECTIONS)
        return NULL;
    disk = request_word(request_word(request + OFFSET_REQUEST_QUEUE) + OFFSET_QUEUE_DISK);
    device = request_half(disk + OFFSET_DISK_MAJOR) << DEVICE_MINOR_BITS |
             request_half(disk + OFFSET_DISK_MINOR);
    index = block_devices.lookup(&device);
    if (!index)
        return NULL;
    key = (bpf_get_smp_processor_id() * DEVICE_COUNT + *index) * REQUEST_DIRECTIONS + direction;
    return device_requests.lookup(&key);
}

/* Fires again for a request that the driver returned for lack of room. */
RAW_TRACEPOINT_PROBE(block_rq_issue) {
    u64 request = ctx->args[0];
    struct issued issued = {.bytes_left = request_half(request + OFFSET_REQUEST_BYTES)};

    if (!issued.bytes_left || !stats_of(request))
        return 0;
    issued.start_ns = bpf_ktime_get_ns();
    requests.update(&request, &issued);
    return 0;
}

/* Atomic, because before Linux 6.1 a raw tracepoint's program could interrupt itself. */
static __always_inline void count_request(struct request_stats *stats, struct issued *issued) {
    u64 latency_ns;
    u64 *bucket;

    __sync_fetch_and_add(&stats->count, 1);
    if (!issued) {
        __sync_fetch_and_add(&stats->untimed, 1);
        return;
    }
    latency_ns = bpf_ktime_get_ns() - issued->start_ns;
    if (!stats->latency_total_ns || latency_ns < stats->latency_min_ns)
        stats->latency_min_ns = latency_ns;
    if (latency_ns > stats->latency_max_ns)
        stats->latency_max_ns = latency_ns;
    __sync_fetch_and_add(&stats->latency_total_ns, latency_ns);
    bucket = bucket_at(stats->buckets, bucket_of(latency_ns));
    if (bucket)
        __sync_fetch_and_add(bucket, 1);
}

/*
 * Arguments: request, error, bytes. Fires for each part that completes, and with no bytes after the
 * flush that follows a write.
 */
RAW_TRACEPOINT_PROBE(block_rq_complete) {
    u64 request = ctx->args[0];
    u64 bytes = (u32)ctx->args[2] >> SECTOR_LOG2 << SECTOR_LOG2;
    struct request_stats *stats = bytes ? stats_of(request) : NULL;
    struct issued *issued;

    if (!stats)
        return 0;
    issued = requests.lookup(&request);
    if ((u8)ctx->args[1]) { /* blk_status_t; before Linux 5.16 an errno */
        __sync_fetch_and_add(&stats->failed, 1);
        requests.delete(&request);
        return 0;
    }
    __sync_fetch_and_add(&stats->bytes, bytes);
    if (issued && bytes < issued->bytes_left) {
        issued->bytes_left -= bytes;
        return 0;
    }
    count_request(stats, issued);
    requests.delete(&request);
    return 0;
}
