// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The location of a file: the directories and files that rules name, and the walk up to them.
 * Structure offsets (OFFSET_…) come from the running kernel's BTF.
 */
#define SB_KERNMOUNT (1ul << 22) /* include/linux/fs.h: pipes, sockets, memfd, anonymous inodes */
#define SB_NOUSER    (1ul << 31)
#define RAMFS_MAGIC  0x858458f6 /* include/uapi/linux/magic.h */
#define TMPFS_MAGIC  0x01021994 /* also devtmpfs, which contains character devices */
#define S_IFMT       0170000
#define S_IFBLK      0060000

/* A flag next to the slots of a file: it exists only in memory, or is a character device. */
#define UNBACKED (1ull << 32)

/* A directory or file that a rule names: its inode on its super block. */
struct place {
    u64 inode_number;
    u32 device;
    u32 zero;
};

BPF_F_TABLE("hash", struct place, u32, places, SLOT_COUNT, 0);

/*
 * Words of kernel memory, 0 behind an invalid address. profiler/bpf/casts.py finds out whether the
 * kernel gives an address a type, so that a program may read there without a helper.
 */
#ifdef TYPE_OF_WORD
static u64 (*read_only_cast)(u64 address, u32 type) = (void *)READ_ONLY_CAST;

static __always_inline u64 word_at(u64 address) {
    return *(u64 *)read_only_cast(address, TYPE_OF_WORD);
}

static __always_inline u32 half_at(u64 address) {
    return *(u32 *)read_only_cast(address, TYPE_OF_WORD);
}

/* Reads the first and the last of consecutive words. */
static __always_inline void ends_at(u64 address, u64 *words, u32 count) {
    words[0] = word_at(address);
    words[count - 1] = word_at(address + (count - 1) * sizeof(u64));
}
#else
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

/* Reads consecutive words with one call of the helper, which is most of the cost. */
static __always_inline void ends_at(u64 address, u64 *words, u32 count) {
    bpf_probe_read_kernel(words, count * sizeof(u64), (void *)address);
}
#endif

/*
 * The struct file behind a descriptor of this process, or 0. Since Linux 5.11 a program may follow
 * typed pointers from the current task without helper calls, which are most of the cost.
 */
static __always_inline u64 file_of(u32 descriptor) {
    u64 files = *(u64 *)((u64)bpf_get_current_task_btf() + OFFSET_TASK_FILES);
    u64 table;

    if (!files)
        return 0;
    table = *(u64 *)(files + OFFSET_FILES_TABLE);
    if (!table || descriptor >= *(u32 *)(table + OFFSET_TABLE_SIZE))
        return 0;
    return word_at(*(u64 *)(table + OFFSET_TABLE_FILES) + sizeof(u64) * descriptor);
}

/* From s_flags to s_magic. */
#define SUPER_WORDS ((OFFSET_SUPER_MAGIC - OFFSET_SUPER_FLAGS) / sizeof(u64) + 1)

/* All bits for a file on a mounted file system (UNBACKED only if it is not on a disk), else 0. */
static __always_inline u64 kind_of(u64 file) {
    u64 inode = word_at(file + OFFSET_FILE_INODE);
    u64 super_block = word_at(inode + OFFSET_INODE_SUPER);
    u64 words[SUPER_WORDS] = {}, magic;

    ends_at(super_block + OFFSET_SUPER_FLAGS, words, SUPER_WORDS);
    if (words[0] & (SB_KERNMOUNT | SB_NOUSER))
        return 0;
    magic = words[SUPER_WORDS - 1];
    if (magic != TMPFS_MAGIC && magic != RAMFS_MAGIC)
        return ~UNBACKED;
    return (half_at(inode + OFFSET_INODE_MODE) & S_IFMT) == S_IFBLK ? ~UNBACKED : ~0ull;
}

/* From d_parent to d_inode. */
#define DENTRY_WORDS ((OFFSET_DENTRY_INODE - OFFSET_DENTRY_PARENT) / sizeof(u64) + 1)

/*
 * Those of the wanted slots whose places contain a struct path. It walks up the directories to the
 * root of the mount, continues at the mount point, and ends at the last root. The same loop then
 * walks the other path, if there is one, because a second loop would cost the verifier too much.
 */
static __always_inline u64 slots_by_place(u64 path, u64 other, u64 wanted, struct config *config) {
    u64 dentry = word_at(path + OFFSET_PATH_DENTRY);
    u64 vfsmount = word_at(path + OFFSET_PATH_MOUNT);
    u64 root = word_at(vfsmount + OFFSET_VFSMOUNT_ROOT);
    u64 slots = 0;

    for (int step = 0; step < WALK_LIMIT; step++) {
        u64 words[DENTRY_WORDS] = {}, parent;
        struct place place = {};

        ends_at(dentry + OFFSET_DENTRY_PARENT, words, DENTRY_WORDS);
        parent = words[0];
        place.inode_number = word_at(words[DENTRY_WORDS - 1] + OFFSET_INODE_NUMBER);
        if (config->filter_of_places >> (place.inode_number & 31) & 1) {
            u64 super_block = word_at(vfsmount + OFFSET_VFSMOUNT_SUPER);
            u32 *found;

            place.device = half_at(super_block + OFFSET_SUPER_DEVICE);
            found = places.lookup(&place);
            slots |= found ? *found & wanted : 0;
            if (slots == wanted)
                return slots;
        }
        if (dentry == root) {
            u64 mount = vfsmount - OFFSET_MOUNT_VFSMOUNT;
            u64 upper = word_at(mount + OFFSET_MOUNT_PARENT);

            if (upper == mount) {
                if (!other)
                    return slots;
                parent = word_at(other + OFFSET_PATH_DENTRY);
                vfsmount = word_at(other + OFFSET_PATH_MOUNT);
                other = 0;
            } else {
                parent = word_at(mount + OFFSET_MOUNT_POINT);
                vfsmount = upper + OFFSET_MOUNT_VFSMOUNT;
            }
            root = word_at(vfsmount + OFFSET_VFSMOUNT_ROOT);
        } else if (parent == dentry) {
            return slots; /* a file without a name */
        }
        dentry = parent;
    }
    lose(config, PATHS_TOO_DEEP);
    return slots;
}
