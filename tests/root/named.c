// SPDX-License-Identifier: Apache-2.0
/*
 * Makes every system call that names a path, by number, and prints the outcomes' counts.
 *
 *     named DESCRIPTOR PATH
 *
 * PATH is an empty directory, from the open directory DESCRIPTOR or, if that is -100 (AT_FDCWD),
 * from the working directory; calls that take no descriptor are made only then. Every call is made
 * on existing paths, and again in a missing directory. Calls that this kernel or architecture
 * does not have are left out. The output has a line `TYPE SUCCEEDED FAILED` for each type.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Since Linux 6.6, 6.13 and 6.17, with one number on every architecture. */
enum { FCHMODAT2 = 452, SETXATTRAT = 463, GETXATTRAT, LISTXATTRAT, REMOVEXATTRAT };
enum { FILE_GETATTR = 468, FILE_SETATTR };

enum type { OPEN, CREATE, DELETE, FSCHANGE, ACCESS, TYPES };
static const char *const NAMES[] = {"open", "create", "delete", "fschange", "access"};

static long succeeded[TYPES], failed[TYPES];
static int at;
static const char *directory;
static char buffer[65536];

static long call6(enum type type, long number, long a, long b, long c, long d, long e, long f) {
    long returned = syscall(number, a, b, c, d, e, f);

    if (returned >= 0)
        succeeded[type]++;
    else if (errno != ENOSYS)
        failed[type]++;
    return returned;
}

#define CALL_(type, number, a, b, c, d, e, f, ...)                                                 \
    call6(type, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define CALL(type, ...) CALL_(type, __VA_ARGS__, 0, 0, 0, 0, 0, 0)

static void opened(long descriptor) {
    if (descriptor >= 0)
        close(descriptor);
}

static const char *path(const char *name) {
    static char paths[8][PATH_MAX];
    static int next;
    char *text = paths[next++ % 8];

    snprintf(text, PATH_MAX, "%s/%s", directory, name);
    return text;
}

static void with_descriptors(void) {
    uint64_t create[3] = {O_CREAT | O_WRONLY, 0600, 0}, read_only[3] = {0};
    struct {
        struct file_handle head;
        char rest[MAX_HANDLE_SZ];
    } handle = {.head.handle_bytes = MAX_HANDLE_SZ};
    uint64_t value[3] = {(uintptr_t)"value", 5, 0}, got[3] = {(uintptr_t)buffer, 64, 0};
    int mount_id;
    long file;

    CALL(CREATE, SYS_mkdirat, at, path("d2"), 0700);
    CALL(CREATE, SYS_mknodat, at, path("n2"), S_IFREG | 0600, 0);
    opened(CALL(CREATE, SYS_openat, at, path("o2"), O_CREAT | O_WRONLY, 0600));
    opened(CALL(CREATE, SYS_openat2, at, path("o3"), create, sizeof(create)));
    CALL(CREATE, SYS_symlinkat, "nowhere", at, path("s2"));
    CALL(CREATE, SYS_linkat, at, path("o2"), at, path("l2"), 0);
    opened(CALL(OPEN, SYS_openat2, at, path("o2"), read_only, sizeof(read_only)));
    file = CALL(OPEN, SYS_openat, at, path("o2"), O_RDWR);

    CALL(FSCHANGE, SYS_fchmodat, at, path("o2"), 0600);
    CALL(FSCHANGE, FCHMODAT2, at, path("o2"), 0600, 0);
    CALL(FSCHANGE, SYS_fchownat, at, path("o2"), -1, -1, 0);
    CALL(FSCHANGE, SYS_utimensat, at, path("o2"), 0, 0);
#ifdef SYS_futimesat
    CALL(FSCHANGE, SYS_futimesat, at, path("o2"), 0);
#endif
    CALL(FSCHANGE, SETXATTRAT, at, path("o2"), 0, "user.a", value, sizeof(value));
    CALL(ACCESS, GETXATTRAT, at, path("o2"), 0, "user.a", got, sizeof(got));
    CALL(ACCESS, LISTXATTRAT, at, path("o2"), 0, buffer, sizeof(buffer));
    CALL(FSCHANGE, REMOVEXATTRAT, at, path("o2"), 0, "user.a");
    CALL(ACCESS, FILE_GETATTR, at, path("o2"), buffer, 24, 0);
    CALL(FSCHANGE, FILE_SETATTR, at, path("o2"), buffer, 24, 0);
#ifdef SYS_renameat
    CALL(FSCHANGE, SYS_renameat, at, path("o3"), at, path("o4"));
    CALL(FSCHANGE, SYS_renameat, at, path("o4"), at, path("o3"));
#endif
    CALL(FSCHANGE, SYS_renameat2, at, path("n2"), at, path("n3"), 0);
    CALL(ACCESS, SYS_faccessat, at, path("o2"), R_OK);
    CALL(ACCESS, SYS_faccessat2, at, path("o2"), R_OK, 0);
    CALL(ACCESS, SYS_newfstatat, at, path("o2"), buffer, 0);
    CALL(ACCESS, SYS_statx, at, path("o2"), 0, STATX_BASIC_STATS, buffer);
    CALL(ACCESS, SYS_readlinkat, at, path("s2"), buffer, sizeof(buffer));
    if (CALL(ACCESS, SYS_name_to_handle_at, at, path("o2"), &handle, &mount_id, 0) >= 0)
        opened(CALL(OPEN, SYS_open_by_handle_at, file, &handle, O_RDONLY));

    if (file >= 0) {
        CALL(FSCHANGE, SYS_fchmod, file, 0600);
        CALL(FSCHANGE, SYS_fchown, file, -1, -1);
        CALL(FSCHANGE, SYS_ftruncate, file, 10);
        CALL(FSCHANGE, SYS_ftruncate, file, -1); /* which fails */
        CALL(FSCHANGE, SYS_fallocate, file, 0, 0, 4096);
        CALL(FSCHANGE, SYS_fsetxattr, file, "user.b", "value", 5, 0);
        CALL(FSCHANGE, SYS_utimensat, file, 0, 0, 0);
        CALL(ACCESS, SYS_fstat, file, buffer);
        CALL(ACCESS, SYS_fstatfs, file, buffer);
        CALL(ACCESS, SYS_fgetxattr, file, "user.b", buffer, 64);
        CALL(ACCESS, SYS_flistxattr, file, buffer, sizeof(buffer));
        CALL(FSCHANGE, SYS_fremovexattr, file, "user.b");
        CALL(ACCESS, SYS_newfstatat, file, "", buffer, AT_EMPTY_PATH);
        CALL(ACCESS, SYS_statx, file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, buffer);
        opened(file);
    }

    CALL(DELETE, SYS_unlinkat, at, path("o2"), 0);
    CALL(DELETE, SYS_unlinkat, at, path("o3"), 0);
    CALL(DELETE, SYS_unlinkat, at, path("n3"), 0);
    CALL(DELETE, SYS_unlinkat, at, path("s2"), 0);
    CALL(DELETE, SYS_unlinkat, at, path("l2"), 0);
    CALL(DELETE, SYS_unlinkat, at, path("d2"), AT_REMOVEDIR);
}

/* The calls that start at the working directory; some exist on every architecture, some are old. */
static void by_path(void) {
    opened(CALL(CREATE, SYS_openat, AT_FDCWD, path("o1"), O_CREAT | O_WRONLY, 0600));
    CALL(FSCHANGE, SYS_truncate, path("o1"), 10);
    CALL(FSCHANGE, SYS_setxattr, path("o1"), "user.a", "value", 5, 0);
    CALL(FSCHANGE, SYS_lsetxattr, path("o1"), "user.b", "value", 5, 0);
    CALL(ACCESS, SYS_getxattr, path("o1"), "user.a", buffer, 64);
    CALL(ACCESS, SYS_lgetxattr, path("o1"), "user.b", buffer, 64);
    CALL(ACCESS, SYS_listxattr, path("o1"), buffer, sizeof(buffer));
    CALL(ACCESS, SYS_llistxattr, path("o1"), buffer, sizeof(buffer));
    CALL(FSCHANGE, SYS_removexattr, path("o1"), "user.a");
    CALL(FSCHANGE, SYS_lremovexattr, path("o1"), "user.b");
    CALL(ACCESS, SYS_statfs, path("o1"), buffer);
#ifdef SYS_open
    CALL(CREATE, SYS_mkdir, path("d1"), 0700);
    CALL(CREATE, SYS_mknod, path("n1"), S_IFREG | 0600, 0);
    opened(CALL(CREATE, SYS_creat, path("c1"), 0600));
    opened(CALL(CREATE, SYS_open, path("c3"), O_CREAT | O_WRONLY, 0600));
    CALL(CREATE, SYS_symlink, "nowhere", path("s1"));
    CALL(CREATE, SYS_link, path("o1"), path("l1"));
    opened(CALL(OPEN, SYS_open, path("o1"), O_RDONLY));
    CALL(FSCHANGE, SYS_chmod, path("o1"), 0600);
    CALL(FSCHANGE, SYS_chown, path("o1"), -1, -1);
    CALL(FSCHANGE, SYS_lchown, path("s1"), -1, -1);
    CALL(FSCHANGE, SYS_utime, path("o1"), 0);
    CALL(FSCHANGE, SYS_utimes, path("o1"), 0);
    CALL(FSCHANGE, SYS_rename, path("c1"), path("c2"));
    CALL(ACCESS, SYS_access, path("o1"), R_OK);
    CALL(ACCESS, SYS_stat, path("o1"), buffer);
    CALL(ACCESS, SYS_lstat, path("s1"), buffer);
    CALL(ACCESS, SYS_readlink, path("s1"), buffer, sizeof(buffer));
    CALL(DELETE, SYS_unlink, path("n1"));
    CALL(DELETE, SYS_unlink, path("c2"));
    CALL(DELETE, SYS_unlink, path("c3"));
    CALL(DELETE, SYS_unlink, path("s1"));
    CALL(DELETE, SYS_unlink, path("l1"));
    CALL(DELETE, SYS_rmdir, path("d1"));
#endif
    CALL(DELETE, SYS_unlinkat, AT_FDCWD, path("o1"), 0);
}

int main(int count, char **arguments) {
    char missing[PATH_MAX];

    if (count != 3)
        return 2;
    at = atoi(arguments[1]);
    directory = arguments[2];
    snprintf(missing, sizeof(missing), "%s/missing", directory);
    for (int pass = 0; pass < 2; pass++) {
        with_descriptors();
        if (at == AT_FDCWD)
            by_path();
        directory = missing;
    }
    for (int type = 0; type < TYPES; type++)
        printf("%s %ld %ld\n", NAMES[type], succeeded[type], failed[type]);
    return 0;
}
