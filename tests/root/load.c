// SPDX-License-Identifier: Apache-2.0
/*
 * Makes write calls as fast as it can and prints how many; tests and benchmarks run it.
 *
 *   load hammer DIRECTORY THREADS MILLISECONDS   threads that write without a pause
 *   load churn DIRECTORY THREADS MILLISECONDS    threads that start threads and processes that
 * write load tree DIRECTORY PROCESSES                a binary tree of processes that write and end
 *   load burst FILE CALLS                        that many calls
 *   load loop FILE BYTES                         for each number on a line: that many calls of
 * pwrite
 *
 * `hammer`, `churn` and `tree` end with a JSON object: the calls and bytes as the program counted
 * them, the threads and processes that made them, and what the kernel's accounting reports
 * (/proc/self/io, to which every process that is waited for is added). `loop` answers each line
 * with the mean time of a call in nanoseconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_CALL_BYTES  4096
#define BURST_CALLS     20
#define PARALLEL_LEVELS 3 /* of the tree: below, one child at a time, so that few are alive */

extern char **environ;

static const char *own_path, *directory;
static int64_t end_ns;
static atomic_long calls, bytes, threads, processes;
static char buffer[1 << 20];

static void fail(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Bytes of call `number`: all sizes up to MAX_CALL_BYTES come in turn. */
static long size_of(long number) {
    return number % MAX_CALL_BYTES + 1;
}

static long bytes_of(long count) {
    long sum = 0;

    for (long number = 0; number < count; number++)
        sum += size_of(number);
    return sum;
}

/* One call, of a kind that depends on the number; always at the beginning of the file. */
static void call(int fd, long number) {
    long size = size_of(number);
    struct iovec vectors[] = {{buffer, size / 2}, {buffer, size - size / 2}};
    long moved = -1;

    if (number % 4 < 2 && lseek(fd, 0, SEEK_SET))
        fail("lseek");
    switch (number % 4) {
    case 0:
        moved = write(fd, buffer, size);
        break;
    case 1:
        moved = writev(fd, vectors, 2);
        break;
    case 2:
        moved = pwrite(fd, buffer, size, 0);
        break;
    case 3:
        moved = pwritev(fd, vectors, 2, 0);
        break;
    }
    if (moved != size)
        fail("write");
}

static int open_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        fail(path);
    return fd;
}

static void file_name(char *path, size_t size, const char *kind, long number) {
    snprintf(path, size, "%s/%s-%ld", directory, kind, number);
}

static void burst(const char *path, long count) {
    int fd = open_file(path);

    for (long number = 0; number < count; number++)
        call(fd, number);
    close(fd);
}

static void *hammer(void *argument) {
    char path[4096];
    long number = 0, moved = 0;
    int fd;

    file_name(path, sizeof(path), "hammer", (intptr_t)argument);
    fd = open_file(path);
    for (; number % 64 || now_ns() < end_ns; number++) {
        call(fd, number);
        moved += size_of(number);
    }
    close(fd);
    calls += number;
    bytes += moved;
    threads++;
    return NULL;
}

static void *burst_in_thread(void *path) {
    burst(path, BURST_CALLS);
    return NULL;
}

static void await(pid_t pid) {
    int status;

    if (waitpid(pid, &status, 0) != pid || status)
        fail("a process that writes");
}

static void start_thread(char *path) {
    pthread_t thread;

    if ((errno = pthread_create(&thread, NULL, burst_in_thread, path)) ||
        (errno = pthread_join(thread, NULL)))
        fail("thread");
    threads++;
}

static void start_process(char *path) {
    pid_t pid = fork();

    if (pid < 0)
        fail("fork");
    if (!pid) {
        burst(path, BURST_CALLS);
        _exit(0);
    }
    await(pid);
    processes++;
}

static void start_program(char *path) {
    char count[16];
    char *const arguments[] = {"load", "burst", path, count, NULL};
    pid_t pid;

    snprintf(count, sizeof(count), "%d", BURST_CALLS);
    if ((errno = posix_spawn(&pid, own_path, NULL, NULL, arguments, environ)))
        fail("posix_spawn");
    await(pid);
    processes++;
}

static void *churn(void *argument) {
    static void (*const start[])(char *) = {start_thread, start_process, start_program};
    char path[4096];

    file_name(path, sizeof(path), "churn", (intptr_t)argument);
    for (long number = (intptr_t)argument; now_ns() < end_ns; number++) {
        start[number % 3](path);
        calls += BURST_CALLS;
        bytes += bytes_of(BURST_CALLS);
    }
    return NULL;
}

static void in_threads(long count, void *(*work)(void *)) {
    pthread_t workers[count];

    for (long number = 0; number < count; number++)
        if ((errno = pthread_create(&workers[number], NULL, work, (void *)number)))
            fail("thread");
    for (long number = 0; number < count; number++)
        pthread_join(workers[number], NULL);
}

/* Calls that process `number` of the tree makes. */
static long calls_in_tree(long number) {
    return number % 5 + 1;
}

static void tree(long number, long last, int level) {
    char path[4096];
    pid_t children[2] = {};

    file_name(path, sizeof(path), "tree", number % 64);
    burst(path, calls_in_tree(number));
    for (int side = 0; side < 2; side++) {
        long child = 2 * number + side;

        if (child > last)
            break;
        children[side] = fork();
        if (children[side] < 0)
            fail("fork");
        if (!children[side]) {
            tree(child, last, level + 1);
            _exit(0);
        }
        if (level >= PARALLEL_LEVELS) {
            await(children[side]);
            children[side] = 0;
        }
    }
    for (int side = 0; side < 2; side++)
        if (children[side])
            await(children[side]);
}

static void count_tree(long last) {
    for (long number = 1; number <= last; number++) {
        calls += calls_in_tree(number);
        bytes += bytes_of(calls_in_tree(number));
    }
    processes = last;
}

static void loop(const char *path, long size) {
    int fd = open_file(path);
    long count;

    while (scanf("%ld", &count) == 1) {
        int64_t start_ns = now_ns();

        for (long number = 0; number < count; number++)
            if (pwrite(fd, buffer, size, 0) != size)
                fail("pwrite");
        printf("%.3f\n", (double)(now_ns() - start_ns) / count);
        fflush(stdout);
    }
}

static void tell_own_io(long *own_calls, long *own_bytes) {
    FILE *file = fopen("/proc/self/io", "r");

    if (!file ||
        fscanf(file, "rchar: %*d wchar: %ld syscr: %*d syscw: %ld", own_bytes, own_calls) != 2)
        fail("/proc/self/io");
    fclose(file);
}

static void tell(void) {
    long own_calls, own_bytes;

    tell_own_io(&own_calls, &own_bytes);
    printf("{\"calls\": %ld, \"bytes\": %ld, \"threads\": %ld, \"processes\": %ld, "
           "\"proc_io_calls\": %ld, \"proc_io_bytes\": %ld}\n",
           calls, bytes, threads, processes, own_calls, own_bytes);
}

int main(int count, char **arguments) {
    const char *plan = count > 3 ? arguments[1] : "";
    long number = count > 3 ? atol(arguments[3]) : 0;

    own_path = "/proc/self/exe";
    directory = count > 3 ? arguments[2] : "";
    end_ns = now_ns() + (count > 4 ? atol(arguments[4]) : 0) * INT64_C(1000000);
    if (!strcmp(plan, "hammer"))
        in_threads(number, hammer);
    else if (!strcmp(plan, "churn"))
        in_threads(number, churn);
    else if (!strcmp(plan, "tree")) {
        pid_t pid = fork();

        if (!pid) {
            tree(1, number, 0);
            _exit(0);
        }
        await(pid);
        count_tree(number);
    } else if (!strcmp(plan, "burst")) {
        burst(directory, number);
        return 0;
    } else if (!strcmp(plan, "loop")) {
        loop(directory, number);
        return 0;
    } else {
        fprintf(stderr, "load: see the head of load.c\n");
        return 2;
    }
    tell();
    return 0;
}
