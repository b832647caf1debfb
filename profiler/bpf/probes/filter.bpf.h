// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Whether the current task passes the session's filter: a command name, a cgroup or both.
 * profiler/bpf/filter.py selects the code at compile time; without a filter there is none.
 *
 * It is valid where the current task is the one that acts, as in its system calls, but not for the
 * task that sched_switch or sched_wakeup names.
 */

#ifdef FILTER_COMM
/* The name of the thread, not of its process; the kernel pads it with NULs. */
static __always_inline int passes_comm(void) {
    u64 words[2] = {};

    bpf_get_current_comm(words, sizeof(words));
    return words[0] == COMM_WORD_0 && words[1] == COMM_WORD_1;
}
#else
static __always_inline int passes_comm(void) {
    return 1;
}
#endif

#if defined(FILTER_CGROUP_V2)
/* One look-up finds the task's group, or the ancestor of it, at the filter's depth. */
static __always_inline int passes_cgroup(void) {
    return bpf_get_current_ancestor_cgroup_id(CGROUP_LEVEL) == CGROUP_ID;
}
#elif defined(FILTER_CGROUP_V1)
/*
 * Walks up from the task's group in the controller's hierarchy, because BPF has no helper for
 * hierarchies of version 1. Since Linux 5.11 a program may follow typed pointers from the current
 * task; the kernel reads 0 behind an invalid one.
 */
static __always_inline int passes_cgroup(void) {
    u64 set = *(u64 *)((u64)bpf_get_current_task_btf() + OFFSET_TASK_CGROUPS);
    u64 state = *(u64 *)(set + OFFSET_SET_STATES + sizeof(u64) * CGROUP_SUBSYSTEM);

    for (int level = 0; level < CGROUP_LEVELS_MAX && state; level++) {
        u64 node = *(u64 *)(*(u64 *)(state + OFFSET_STATE_CGROUP) + OFFSET_CGROUP_NODE);

        if (*(u64 *)(node + OFFSET_NODE_ID) == CGROUP_ID)
            return 1;
        state = *(u64 *)(state + OFFSET_STATE_PARENT);
    }
    return 0;
}
#else
static __always_inline int passes_cgroup(void) {
    return 1;
}
#endif

static __always_inline int passes_filter(void) {
    return passes_comm() && passes_cgroup();
}
