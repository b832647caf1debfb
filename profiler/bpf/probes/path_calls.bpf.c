// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Calls that name a path. On entry only the arguments are saved. The path is examined on exit,
 * because the kernel has then read it and so brought its page into memory.
 *
 * A path is judged by its names, from the root, working or open directory where it starts, without
 * resolving `..` and symlinks. For an opened file, its real location is used.
 */
#define AT_FDCWD       (-100)
#define EFAULT         14
#define O_CREATES      (0100 | 020000000) /* O_CREAT, __O_TMPFILE: asm-generic/fcntl.h */
#define NAMES_BYTES    252                /* profiler.bpf.starts.NAMES_MAX_BYTES */
#define ARGUMENT_BYTES 512

/* The one or two paths of a call in flight: user addresses, and the descriptors they start at. */
struct named {
    u64 paths[2];
    int starts[2];
    u32 count;
    u32 opens; /* the call returns a descriptor of the file */
};

/* The names from a start on, each followed by a slash: `data/images/`. */
struct route {
    u32 bits; /* the length of what follows, as the trie needs it */
    u32 start;
    u8 names[NAMES_BYTES];
};

/*
 * What is found out about a call's paths: the struct path that each starts at, or 0, and the route
 * from there. It is in memory, because the verifier tracks every value of a register.
 */
struct scratch {
    u8 argument[ARGUMENT_BYTES];
    struct route routes[2];
    u64 starts[2];
    u64 found;
    u32 length;
    u8 before;
};

BPF_F_TABLE("hash", u32, struct named, paths_named, MAX_THREADS, 0);
BPF_F_TABLE("hash", struct place, u32, starts, START_COUNT, 0);
BPF_F_TABLE("lpm_trie", struct route, u32, routes, ROUTE_COUNT, BPF_F_NO_PREALLOC);
BPF_F_TABLE("percpu_array", u32, struct scratch, scratches, 1, 0);

static __always_inline int enter_path(u32 call_type, struct named *named) {
    struct config *config = config_of_session();
    struct thread *thread = current_thread();
    u32 tid = bpf_get_current_pid_tgid();
    u64 slots;

    if (!config)
        return 0;
    note_entry(config, thread);
    if (!in_scope(config, thread))
        return 0;
    slots = config->slots_of_type[call_type] & (config->slots_of_root | config->slots_of_places);
    if (!slots)
        return 0;
    if (paths_named.update(&tid, named)) {
        lose(config, CALLS_NOT_RECORDED);
        return 0;
    }
    return open_call(config, thread, call_type, slots, 0);
}

/* 1 if two bytes are equal, else 0, without a branch that the verifier would follow. */
static __always_inline u64 equal(u64 byte, u64 other) {
    u64 difference = byte ^ other;
    asm volatile("" : "+r"(difference)); /* the compiler would make a branch of it */
    return (difference - 1) >> 63;
}

/* Copies the argument's names to a route, without repeated slashes and `.`. */
static __always_inline void read_names(struct scratch *scratch, struct route *route) {
    volatile u32 *length = &scratch->length;
    volatile u8 *before = &scratch->before;

    *length = 0;
    *before = '/';
    for (u32 at = 0; at < ARGUMENT_BYTES - 1; at++) {
        u64 byte = scratch->argument[at], next = scratch->argument[at + 1], last = *before;
        u64 left_out = equal(last, '/') & (equal(byte, '/') | equal(byte, 0) |
                                           equal(byte, '.') & (equal(next, '/') | equal(next, 0)));
        u32 end = *length;

        if (end >= NAMES_BYTES)
            break;
        route->names[end] = byte | '/' * equal(byte, 0);
        *length = end + 1 - left_out;
        *before = byte ^ ((byte ^ '/') & -left_out);
        if (!byte)
            break;
    }
    route->bits = 8 * (sizeof(route->start) + *length);
}

/* The struct path that a path with this first byte starts at, or 0. */
static __always_inline u64 start_of(u8 first, int descriptor) {
    u64 directories = word_at(bpf_get_current_task() + OFFSET_TASK_FS), file;

    if (first == '/')
        return directories + OFFSET_FS_ROOT;
    if (descriptor == AT_FDCWD)
        return directories + OFFSET_FS_PWD;
    file = file_of(descriptor);
    return file && kind_of(file) ? file + OFFSET_FILE_PATH : 0;
}

/* Examines one path of a call. A missing or empty argument names the start itself. */
static __always_inline void read_path(struct scratch *scratch, u32 at, struct named *named,
                                      long returned, struct config *config) {
    void *argument = (void *)named->paths[at];
    long length = 0;

    scratch->argument[0] = 0;
    scratch->starts[at] = 0;
    if (argument)
        length = bpf_probe_read_user_str(scratch->argument, ARGUMENT_BYTES, argument);
    if (length < 0 || length == ARGUMENT_BYTES) {
        if (returned != -EFAULT)
            lose(config, PATHS_NOT_READ);
        return;
    }
    scratch->starts[at] = start_of(scratch->argument[0], named->starts[at]);
    if (config->slots_of_places)
        read_names(scratch, &scratch->routes[at]);
}

/* The slots of rules' paths that a path leads below when it starts at a directory above them. */
static __always_inline u64 slots_by_names(u64 start, struct route *route) {
    u64 inode = word_at(word_at(start + OFFSET_PATH_DENTRY) + OFFSET_DENTRY_INODE);
    u64 super_block = word_at(word_at(start + OFFSET_PATH_MOUNT) + OFFSET_VFSMOUNT_SUPER);
    struct place place = {.inode_number = word_at(inode + OFFSET_INODE_NUMBER),
                          .device = half_at(super_block + OFFSET_SUPER_DEVICE)};
    u32 *number = start ? starts.lookup(&place) : 0, *found;

    if (!number)
        return 0;
    route->start = *number;
    found = routes.lookup(route);
    return found ? *found : 0;
}

/* Those of the wanted slots that cover a call's paths; none if the first path has no start. */
static __always_inline u64 slots_of_named(struct named *named, u64 wanted, long returned,
                                          struct config *config) {
    u32 only = 0;
    struct scratch *scratch = scratches.lookup(&only);
    u64 at_places = wanted & config->slots_of_places;
    volatile u64 *found, *starts;

    if (!scratch)
        return 0;
    if (named->opens && returned >= 0) { /* the file itself is known */
        named->paths[0] = 0;
        named->starts[0] = returned;
    }
    found = &scratch->found;
    starts = scratch->starts;
    starts[1] = 0;
    read_path(scratch, 0, named, returned, config);
    if (named->count > 1)
        read_path(scratch, 1, named, returned, config);
    if (!starts[0])
        return 0;
    *found = wanted & config->slots_of_root;
    if (at_places) {
        *found |= slots_by_place(starts[0], starts[1], at_places, config);
        *found |= at_places & slots_by_names(starts[0], &scratch->routes[0]);
        *found |= at_places & slots_by_names(starts[1], &scratch->routes[1]);
    }
    return *found;
}

int leave_path_call(struct sys_exit *call) {
    u64 end_ns = bpf_ktime_get_ns();
    long returned = RETURNED(call);
    struct config *config = config_of_session();
    struct thread *thread = current_thread();
    u32 tid = bpf_get_current_pid_tgid();
    struct named *named;

    if (!config || !thread)
        return 0;
    if (thread->slots) {
        u64 wanted = thread->slots, slots = 0;

        named = paths_named.lookup(&tid);
        if (named) {
            slots = slots_of_named(named, wanted, returned, config);
            paths_named.delete(&tid);
        }
        if (slots)
            thread->slots = slots;
        else
            close_call(thread, tally_of_cpu());
    }
    return leave(config, thread, returned, end_ns);
}

/* For a call with one path, which starts at the working directory. */
static __always_inline int enter_at_cwd(u32 call_type, u64 path) {
    struct named named = {.paths = {path}, .starts = {AT_FDCWD}, .count = 1};
    return enter_path(call_type, &named);
}

/* For a call with one path, which starts at an open directory or is the open file itself. */
static __always_inline int enter_at(u32 call_type, int start, u64 path) {
    struct named named = {.paths = {path}, .starts = {start}, .count = 1};
    return enter_path(call_type, &named);
}

static __always_inline int enter_two(u32 call_type, int start, u64 path, int other_start,
                                     u64 other_path) {
    struct named named = {.paths = {path, other_path}, .starts = {start, other_start}, .count = 2};
    return enter_path(call_type, &named);
}

static __always_inline int enter_opening(int start, u64 path, u64 flags) {
    struct named named = {.paths = {path}, .starts = {start}, .count = 1, .opens = 1};
    return enter_path(flags & O_CREATES ? CREATE : OPEN, &named);
}

int enter_open(struct sys_enter *call) {
    return enter_opening(AT_FDCWD, ARGUMENT(call, 0), ARGUMENT(call, 1));
}

int enter_creat(struct sys_enter *call) {
    return enter_opening(AT_FDCWD, ARGUMENT(call, 0), O_CREATES);
}

int enter_openat(struct sys_enter *call) {
    return enter_opening(ARGUMENT(call, 0), ARGUMENT(call, 1), ARGUMENT(call, 2));
}

/* The flags are the first word of struct open_how. */
int enter_openat2(struct sys_enter *call) {
    u64 flags = 0;
    bpf_probe_read_user(&flags, sizeof(flags), (void *)ARGUMENT(call, 2));
    return enter_opening(ARGUMENT(call, 0), ARGUMENT(call, 1), flags);
}

/* A handle has no path; if it cannot be opened, the mount counts as the file. */
int enter_open_by_handle(struct sys_enter *call) {
    return enter_opening(ARGUMENT(call, 0), 0, 0);
}

int enter_create_path(struct sys_enter *call) {
    return enter_at_cwd(CREATE, ARGUMENT(call, 0));
}

int enter_create_at(struct sys_enter *call) {
    return enter_at(CREATE, ARGUMENT(call, 0), ARGUMENT(call, 1));
}

int enter_symlink(struct sys_enter *call) {
    return enter_at_cwd(CREATE, ARGUMENT(call, 1));
}

int enter_symlinkat(struct sys_enter *call) {
    return enter_at(CREATE, ARGUMENT(call, 1), ARGUMENT(call, 2));
}

int enter_link(struct sys_enter *call) {
    return enter_two(CREATE, AT_FDCWD, ARGUMENT(call, 0), AT_FDCWD, ARGUMENT(call, 1));
}

int enter_linkat(struct sys_enter *call) {
    return enter_two(CREATE, ARGUMENT(call, 0), ARGUMENT(call, 1), ARGUMENT(call, 2),
                     ARGUMENT(call, 3));
}

int enter_delete_path(struct sys_enter *call) {
    return enter_at_cwd(DELETE, ARGUMENT(call, 0));
}

int enter_delete_at(struct sys_enter *call) {
    return enter_at(DELETE, ARGUMENT(call, 0), ARGUMENT(call, 1));
}

int enter_fschange_path(struct sys_enter *call) {
    return enter_at_cwd(FSCHANGE, ARGUMENT(call, 0));
}

int enter_fschange_at(struct sys_enter *call) {
    return enter_at(FSCHANGE, ARGUMENT(call, 0), ARGUMENT(call, 1));
}

int enter_fschange_file(struct sys_enter *call) {
    return enter_at(FSCHANGE, ARGUMENT(call, 0), 0);
}

int enter_rename(struct sys_enter *call) {
    return enter_two(FSCHANGE, AT_FDCWD, ARGUMENT(call, 0), AT_FDCWD, ARGUMENT(call, 1));
}

int enter_renameat(struct sys_enter *call) {
    return enter_two(FSCHANGE, ARGUMENT(call, 0), ARGUMENT(call, 1), ARGUMENT(call, 2),
                     ARGUMENT(call, 3));
}

int enter_access_path(struct sys_enter *call) {
    return enter_at_cwd(ACCESS, ARGUMENT(call, 0));
}

int enter_access_at(struct sys_enter *call) {
    return enter_at(ACCESS, ARGUMENT(call, 0), ARGUMENT(call, 1));
}

int enter_access_file(struct sys_enter *call) {
    return enter_at(ACCESS, ARGUMENT(call, 0), 0);
}
