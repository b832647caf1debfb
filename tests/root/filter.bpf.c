// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* For test_filters.py: calls of getpgid(ASKED_PID) that any task made, and those that passed. */
struct asked {
    u64 all;
    u64 passed;
};

BPF_F_TABLE("array", u32, struct asked, asked, 1, BPF_F_MMAPABLE);

TRACEPOINT_PROBE(syscalls, sys_enter_getpgid) {
    u32 only = 0;
    struct asked *count = asked.lookup(&only);

    if (!count || args->pid != ASKED_PID)
        return 0;
    lock_xadd(&count->all, 1);
    if (passes_filter())
        lock_xadd(&count->passed, 1);
    return 0;
}
