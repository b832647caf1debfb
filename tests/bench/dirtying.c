// SPDX-License-Identifier: Apache-2.0
/*
 * Dirties pages and prints the cost; a benchmark runs it.
 *
 *   dirtying FILE
 *
 * For each number on a line: empties the file, appends that many times 4 KiB by pwrite, each of
 * which dirties a page, and prints the mean time of a call in nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SIZE 4096

static char buffer[SIZE];

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int count, char **words) {
    int fd = count == 2 ? open(words[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    long calls;

    if (fd < 0)
        fail("dirtying");
    while (scanf("%ld", &calls) == 1 && calls > 0) {
        int64_t began_ns;

        if (ftruncate(fd, 0))
            fail("ftruncate");
        began_ns = now_ns();
        for (long number = 0; number < calls; number++)
            if (pwrite(fd, buffer, SIZE, number * SIZE) != SIZE)
                fail("pwrite");
        printf("%.1f\n", (double)(now_ns() - began_ns) / calls);
        fflush(stdout);
    }
    return 0;
}
