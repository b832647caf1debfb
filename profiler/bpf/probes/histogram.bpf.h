/* A log-linear histogram of latencies, the one of contracts/stats.py. */
#define EXPONENT_MAX     41 /* calls of 2^42 ns and more go into the last bucket */
#define SUB_BUCKETS_LOG2 4
#define SUB_BUCKETS      (1 << SUB_BUCKETS_LOG2)

static __always_inline u32 log2_of(u64 value) {
    u32 log2 = 0;

#pragma unroll
    for (u32 half = 32; half; half >>= 1) {
        if (value >> half) {
            value >>= half;
            log2 += half;
        }
    }
    return log2;
}

/* contracts.stats.bucket_index, held to it by tests/root/test_probes_buckets.py. */
static __always_inline u32 bucket_of(u64 latency_ns) {
    u32 exponent;

    if (latency_ns < SUB_BUCKETS)
        return latency_ns;
    exponent = log2_of(latency_ns);
    if (exponent > EXPONENT_MAX)
        return BUCKET_COUNT - 1;
    return (exponent - SUB_BUCKETS_LOG2 + 1) * SUB_BUCKETS +
           (latency_ns >> (exponent - SUB_BUCKETS_LOG2)) - SUB_BUCKETS;
}
