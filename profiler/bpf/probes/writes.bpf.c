/*
 * Counts the calls of write, pwrite64, writev, pwritev and pwritev2, by path and size.
 *
 * A slot is what one or several rules count: a path and a range of sizes. On entry the file decides
 * which slots the call may go to, on exit the bytes it moved decide which it does. Structure
 * offsets (OFFSET_…) come from the running kernel's BTF.
 */
#define SB_KERNMOUNT (1ul << 22) /* include/linux/fs.h: pipes, sockets, memfd, anonymous inodes */
#define SB_NOUSER    (1ul << 31)
#define EXPONENT_MAX 41 /* calls of 2^42 ns and more go into the last bucket */
#define SUB_BUCKETS_LOG2 4
#define SUB_BUCKETS      (1 << SUB_BUCKETS_LOG2)

/* As profiler/bpf/probes/writes.py decodes it. */
struct call_stats {
    u64 count;
    u64 bytes;
    u64 failed;
    u64 latency_total_ns;
    u64 latency_min_ns;
    u64 latency_max_ns;
    u64 buckets[BUCKET_COUNT];
};

struct size_range {
    u64 min_bytes;
    u64 max_bytes;
};

/* A directory or file that a rule names: its inode on its super block. */
struct place {
    u64 inode_number;
    u32 device;
    u32 zero;
};

BPF_F_TABLE("hash", struct place, u32, places, SLOT_COUNT, 0);
BPF_F_TABLE("array", u32, struct size_range, size_ranges, SLOT_COUNT, BPF_F_MMAPABLE);
BPF_F_TABLE("array", u32, struct call_stats, writes, BANKS * CPU_COUNT * SLOT_COUNT,
            BPF_F_MMAPABLE);

static __always_inline u64 word_at(u64 address) {
    u64 word = 0;
    bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
    return word;
}

static __always_inline u32 half_at(u64 address) {
    u32 half = 0;
    bpf_probe_read_kernel(&half, sizeof(half), (void *)address);
    return half;
}

/* The struct file behind a descriptor of this process, or 0. */
static __always_inline u64 file_of(u32 descriptor) {
    u64 files = word_at(bpf_get_current_task() + OFFSET_TASK_FILES);
    u64 table = word_at(files + OFFSET_FILES_TABLE);

    if (descriptor >= half_at(table + OFFSET_TABLE_SIZE))
        return 0;
    return word_at(word_at(table + OFFSET_TABLE_FILES) + sizeof(u64) * descriptor);
}

/*
 * The slots of the places that the file lies in, by the path that it was opened through: up the
 * directories to the root of its mount, on from where that is mounted, and so to the last root.
 */
static __always_inline u64 slots_by_place(u64 file, u64 super_block, struct config *config) {
    u64 dentry = word_at(file + OFFSET_FILE_DENTRY);
    u64 vfsmount = word_at(file + OFFSET_FILE_MOUNT);
    u64 root = word_at(vfsmount + OFFSET_VFSMOUNT_ROOT);
    struct place place = {.device = half_at(super_block + OFFSET_SUPER_DEVICE)};
    u64 slots = 0;

    for (int step = 0; step < WALK_LIMIT; step++) {
        u64 inode = word_at(dentry + OFFSET_DENTRY_INODE);
        u64 parent = word_at(dentry + OFFSET_DENTRY_PARENT);

        place.inode_number = word_at(inode + OFFSET_INODE_NUMBER);
        if (config->filter_of_places >> (place.inode_number & 31) & 1) {
            u32 *found = places.lookup(&place);

            slots |= found ? *found : 0;
            if (slots == config->slots_of_places)
                return slots;
        }
        if (dentry == root) {
            u64 mount = vfsmount - OFFSET_MOUNT_VFSMOUNT;
            u64 upper = word_at(mount + OFFSET_MOUNT_PARENT);

            if (upper == mount)
                return slots;
            parent = word_at(mount + OFFSET_MOUNT_POINT);
            vfsmount = upper + OFFSET_MOUNT_VFSMOUNT;
            root = word_at(vfsmount + OFFSET_VFSMOUNT_ROOT);
            super_block = word_at(vfsmount + OFFSET_VFSMOUNT_SUPER);
            place.device = half_at(super_block + OFFSET_SUPER_DEVICE);
        } else if (parent == dentry) {
            return slots; /* a file without a name */
        }
        dentry = parent;
    }
    lose(config, PATHS_TOO_DEEP);
    return slots;
}

static __always_inline u64 slots_of(u32 descriptor, struct config *config) {
    u64 file = file_of(descriptor);
    u64 super_block;

    if (!file)
        return 0;
    super_block = word_at(word_at(file + OFFSET_FILE_INODE) + OFFSET_INODE_SUPER);
    if (word_at(super_block + OFFSET_SUPER_FLAGS) & (SB_KERNMOUNT | SB_NOUSER))
        return 0;
    if (!config->slots_of_places)
        return config->slots_of_root;
    return config->slots_of_root | slots_by_place(file, super_block, config);
}

static __always_inline int enter(u32 descriptor) {
    struct config *config = config_of_session();
    u32 tid = bpf_get_current_pid_tgid();
    struct thread *thread = threads.lookup(&tid);
    struct tally *tally = tally_of_cpu();
    u64 slots;

    if (!config || !tally || (!thread && !config->host_wide))
        return 0;
    if (thread) {
        if (thread->slots) {
            lose(config, CALLS_OVERWRITTEN);
            close_call(thread);
        }
        thread->entered = 1;
    }
    slots = slots_of(descriptor, config);
    if (!slots)
        return 0;
    if (!thread) {
        struct thread inside = {.entered = 1};

        threads.update(&tid, &inside);
        thread = threads.lookup(&tid);
    }
    if (!thread) {
        lose(config, CALLS_NOT_RECORDED);
        return 0;
    }
    tally->opened++;
    thread->slots = slots;
    thread->start_ns = bpf_ktime_get_ns(); /* last, so that our own work is in no latency */
    return 0;
}

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

static __always_inline void count(struct call_stats *stats, u64 bytes, u64 latency_ns, u32 bucket) {
    if (!stats->count || latency_ns < stats->latency_min_ns)
        stats->latency_min_ns = latency_ns;
    if (latency_ns > stats->latency_max_ns)
        stats->latency_max_ns = latency_ns;
    stats->count++;
    stats->bytes += bytes;
    stats->latency_total_ns += latency_ns;
    if (bucket < BUCKET_COUNT)
        stats->buckets[bucket]++;
}

static __always_inline int leave(long returned) {
    u64 end_ns = bpf_ktime_get_ns();
    struct config *config = config_of_session();
    u32 tid = bpf_get_current_pid_tgid();
    struct thread *thread = threads.lookup(&tid);
    u32 cpu = bpf_get_smp_processor_id(), bucket, first;
    u64 slots, latency_ns;

    if (!config || !thread)
        return 0;
    /* A call that seccomp answers leaves without entering (kernel/entry/common.c): it moved none */
    if (!thread->entered && returned > 0)
        lose(config, CALLS_WITHOUT_ENTRY);
    thread->entered = 0;
    if (!thread->slots)
        return 0;
    slots = thread->slots;
    latency_ns = end_ns - thread->start_ns;
    close_call(thread);
    bucket = bucket_of(latency_ns);
    first = ((config->bank & 1) * CPU_COUNT + cpu) * SLOT_COUNT;
    for (u32 slot = 0; slot < SLOT_COUNT; slot++) {
        struct call_stats *stats;
        struct size_range *range;
        u32 key = first + slot, range_key = slot; /* no pointer to the loop's own counter */

        if (!(slots >> slot & 1))
            continue;
        stats = writes.lookup(&key);
        range = size_ranges.lookup(&range_key);
        if (!stats || !range)
            continue;
        if (returned < 0)
            stats->failed++;
        else if (range->min_bytes <= returned && returned <= range->max_bytes)
            count(stats, returned, latency_ns, bucket);
    }
    return 0;
}

TRACEPOINT_PROBE(syscalls, sys_enter_write) {
    return enter(args->fd);
}

TRACEPOINT_PROBE(syscalls, sys_exit_write) {
    return leave(args->ret);
}

TRACEPOINT_PROBE(syscalls, sys_enter_pwrite64) {
    return enter(args->fd);
}

TRACEPOINT_PROBE(syscalls, sys_exit_pwrite64) {
    return leave(args->ret);
}

TRACEPOINT_PROBE(syscalls, sys_enter_writev) {
    return enter(args->fd);
}

TRACEPOINT_PROBE(syscalls, sys_exit_writev) {
    return leave(args->ret);
}

TRACEPOINT_PROBE(syscalls, sys_enter_pwritev) {
    return enter(args->fd);
}

TRACEPOINT_PROBE(syscalls, sys_exit_pwritev) {
    return leave(args->ret);
}

TRACEPOINT_PROBE(syscalls, sys_enter_pwritev2) {
    return enter(args->fd);
}

TRACEPOINT_PROBE(syscalls, sys_exit_pwritev2) {
    return leave(args->ret);
}
