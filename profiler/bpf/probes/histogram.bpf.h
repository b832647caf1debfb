// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* A log-linear histogram of latencies, as in contracts/stats.py. */
#define EXPONENT_MAX     41 /* calls of at least 2^42 ns are counted in the last bucket */
#define SUB_BUCKETS_LOG2 4
#define SUB_BUCKETS      (1 << SUB_BUCKETS_LOG2)
#define INDEX_MASK       1023

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

/* As contracts.stats.bucket_index; tests/root/test_probes_buckets.py compares the two. */
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

/*
 * A counter of `buckets`, or NULL for an index beyond their end. A kernel before 6.8 forgets the
 * bounds of a register that was saved on the stack, so the index must be checked right before its
 * use. The compiler assumes nothing about a value after a barrier: the first barrier keeps it from
 * moving the check out of a loop, the second from computing the address before the check. The index
 * has 64 bits, so that the value checked is the value used, not a shorter copy.
 *
 * If a constant is on the left side of a comparison (16 > latency_ns, where latency_ns >= 256),
 * such a kernel also follows the branch that is never taken, with a lower bound above the upper
 * one, and then treats the address as an arbitrary number. The mask makes it compute both bounds
 * again.
 */
static __always_inline u64 *bucket_at(u64 *buckets, u64 index) {
    _Static_assert(BUCKET_COUNT - 1 <= INDEX_MASK, "the mask changes an index");
    asm volatile("" : "+r"(index));
    index &= INDEX_MASK;
    if (index >= BUCKET_COUNT)
        return NULL;
    asm volatile("" : "+r"(index));
    return buckets + index;
}
