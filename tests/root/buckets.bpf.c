// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* For test_probes_buckets.py: compute the bucket of a latency on sysinfo(2). */
struct question {
    u64 latency_ns;
    u64 bucket;
};

BPF_F_TABLE("array", u32, struct question, latency_and_bucket, 1, BPF_F_MMAPABLE);

TRACEPOINT_PROBE(syscalls, sys_enter_sysinfo) {
    u32 only = 0;
    struct question *question = latency_and_bucket.lookup(&only);

    if (question)
        question->bucket = bucket_of(question->latency_ns);
    return 0;
}
