/*
 * Times the requests of a fixed set of disks, from when the driver got one to its completion
 * (block/blk-mq.c, blk_mq_start_request, blk_update_request). BCC takes the fields from the
 * tracepoints' own format; their `dev` is the whole disk's, never a partition's.
 *
 * Counters only grow: whoever wants those of a time takes the difference of two readings. Each CPU
 * has its own, mapped by user space (scope.bpf.h tells why). A completion that interrupts another
 * BPF program is left out by the kernel; what is left of its request goes with the table's oldest.
 */
#define SECTOR_LOG2  9
#define REQUESTS_MAX 16384

enum direction {
    READS,
    WRITES,
    DIRECTIONS,
};

/* As profiler/bpf/probes/block.py decodes it. */
struct request_stats {
    u64 count;
    u64 bytes;
    u64 failed;
    u64 untimed; /* of `count`: the issue was not seen */
    u64 latency_total_ns;
    u64 latency_min_ns;
    u64 latency_max_ns;
    u64 buckets[BUCKET_COUNT];
};

/* What a request has in common in all its tracepoints. */
struct request_key {
    u64 sector;
    u32 device;
    u32 direction;
};

struct request {
    u64 start_ns;
    u64 bytes_left;
};

BPF_F_TABLE("hash", u32, u32, block_devices, DEVICE_COUNT, 0);
BPF_F_TABLE("lru_hash", struct request_key, struct request, requests, REQUESTS_MAX, 0);
BPF_F_TABLE("array", u32, struct request_stats, device_requests,
            CPU_COUNT * DEVICE_COUNT * DIRECTIONS, BPF_F_MMAPABLE);

/*
 * From the letters of the operation (kernel/trace/blktrace.c, blk_fill_rwbs): a flush that goes
 * ahead is an F before the W. DIRECTIONS for what moves no data: flushes, discards, zeroing.
 */
static __always_inline u32 direction_of(char first, char second) {
    char operation = first == 'F' ? second : first;

    if (operation == 'W')
        return WRITES;
    return operation == 'R' ? READS : DIRECTIONS;
}

static __always_inline struct request_stats *stats_of(struct request_key *request) {
    u32 *index = block_devices.lookup(&request->device);
    u32 cpu = bpf_get_smp_processor_id(), key;

    if (!index)
        return NULL;
    key = (cpu * DEVICE_COUNT + *index) * DIRECTIONS + request->direction;
    return device_requests.lookup(&key);
}

static __always_inline void count_request(struct request_stats *stats, struct request *request) {
    u64 latency_ns;
    u32 bucket;

    stats->count++;
    if (!request) {
        stats->untimed++;
        return;
    }
    latency_ns = bpf_ktime_get_ns() - request->start_ns;
    bucket = bucket_of(latency_ns);
    if (stats->count - stats->untimed == 1 || latency_ns < stats->latency_min_ns)
        stats->latency_min_ns = latency_ns;
    if (latency_ns > stats->latency_max_ns)
        stats->latency_max_ns = latency_ns;
    stats->latency_total_ns += latency_ns;
    if (bucket < BUCKET_COUNT)
        stats->buckets[bucket]++;
}

/* Fires again when a request that was given back (below) is handed to the driver anew. */
TRACEPOINT_PROBE(block, block_rq_issue) {
    struct request_key key = {.sector = args->sector, .device = args->dev};
    struct request request = {.bytes_left = args->bytes};

    key.direction = direction_of(args->rwbs[0], args->rwbs[1]);
    if (key.direction == DIRECTIONS || !request.bytes_left || !block_devices.lookup(&key.device))
        return 0;
    request.start_ns = bpf_ktime_get_ns();
    requests.update(&key, &request);
    return 0;
}

/* The driver had no room for it: it may be merged, and so begin elsewhere, before it comes again */
TRACEPOINT_PROBE(block, block_rq_requeue) {
    struct request_key key = {.sector = args->sector, .device = args->dev};

    key.direction = direction_of(args->rwbs[0], args->rwbs[1]);
    if (key.direction != DIRECTIONS && block_devices.lookup(&key.device))
        requests.delete(&key);
    return 0;
}

/* Fires for each part that completes; the rest of the request then begins where the part ended. */
TRACEPOINT_PROBE(block, block_rq_complete) {
    struct request_key key = {.sector = args->sector, .device = args->dev};
    u64 sectors = args->nr_sector, bytes = sectors << SECTOR_LOG2;
    struct request *found, request;
    struct request_stats *stats;

    key.direction = direction_of(args->rwbs[0], args->rwbs[1]);
    if (key.direction == DIRECTIONS || !sectors) /* no sectors: the flush after a write */
        return 0;
    stats = stats_of(&key);
    if (!stats)
        return 0;
    found = requests.lookup(&key);
    if (found) {
        request = *found;
        requests.delete(&key);
    }
    if (args->error) {
        stats->failed++;
        return 0;
    }
    stats->bytes += bytes;
    if (found && bytes < request.bytes_left) {
        key.sector += sectors;
        request.bytes_left -= bytes;
        requests.update(&key, &request);
        return 0;
    }
    count_request(stats, found ? &request : NULL);
    return 0;
}
