// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Follows the threads in scope: what one of them starts is in scope until it ends. */

/* Fires before the child first runs, for processes and threads (kernel/fork.c, kernel_clone). */
TRACEPOINT_PROBE(sched, sched_process_fork) {
    struct config *config = config_of_session();
    u32 parent = args->parent_pid, child = args->child_pid;
    struct thread idle = {};

    if (!config || config->host_wide || !threads.lookup(&parent))
        return 0;
    if (threads.update(&child, &idle))
        lose(config, THREADS_NOT_FOLLOWED);
    return 0;
}

/* A thread that is not the leader gets the leader's id by an exec (fs/exec.c, de_thread). */
TRACEPOINT_PROBE(sched, sched_process_exec) {
    struct config *config = config_of_session();
    u32 now = args->pid, before = args->old_pid;
    struct thread idle = {};

    if (!config || now == before || !threads.lookup(&before))
        return 0;
    threads.delete(&before);
    if (threads.update(&now, &idle))
        lose(config, THREADS_NOT_FOLLOWED);
    return 0;
}

TRACEPOINT_PROBE(sched, sched_process_exit) {
    struct config *config = config_of_session();
    u32 tid = bpf_get_current_pid_tgid();
    struct thread *thread = threads.lookup(&tid);

    if (!config || !thread)
        return 0;
    if (thread->slots) {
        lose(config, CALLS_WITHOUT_EXIT);
        close_call(thread, tally_of_cpu());
    }
    threads.delete(&tid);
    return 0;
}
