// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a known number of io_uring or Linux AIO requests on a file; the tests run it.
 *
 *     uring WAY FILE REQUESTS BYTES
 *
 * Ways: `plain` (a descriptor), `vector`, `fixed` (a vector in a registered buffer), `splice` (from
 * a pipe), `registered` (a registered file), `read`, `sync`, `polled` (submitted by the ring's own
 * thread), `bad` (a file that is open for reading only), `silent` (no completion if all goes well),
 * `crowded` (completions are not taken until the end), `aio`. It makes system calls only, since no
 * library for either is required. Exit code 77: this kernel has no such request.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define WRITEV_FIXED 61 /* IORING_OP_WRITEV_FIXED, since Linux 6.15 */

struct ring {
    int descriptor;
    unsigned *submit_tail, *submit_mask, *submit_array, *submit_flags;
    unsigned *done_head, *done_tail, *done_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *done;
};

static void *mapped(int descriptor, size_t size_bytes, off_t offset) {
    void *at =
        mmap(0, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, offset);
    if (at == MAP_FAILED)
        err(1, "mmap");
    return at;
}

static struct ring ring_of(int polled) {
    struct io_uring_params p = {.flags = polled ? IORING_SETUP_SQPOLL : 0, .sq_thread_idle = 100};
    struct ring ring;
    char *submit, *done;

    ring.descriptor = syscall(SYS_io_uring_setup, 8, &p);
    if (ring.descriptor < 0)
        err(1, "io_uring_setup");
    submit = mapped(ring.descriptor, p.sq_off.array + p.sq_entries * sizeof(unsigned),
                    IORING_OFF_SQ_RING);
    done = mapped(ring.descriptor, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
                  IORING_OFF_CQ_RING);
    ring.entries =
        mapped(ring.descriptor, p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.submit_tail = (void *)(submit + p.sq_off.tail);
    ring.submit_mask = (void *)(submit + p.sq_off.ring_mask);
    ring.submit_array = (void *)(submit + p.sq_off.array);
    ring.submit_flags = (void *)(submit + p.sq_off.flags);
    ring.done_head = (void *)(done + p.cq_off.head);
    ring.done_tail = (void *)(done + p.cq_off.tail);
    ring.done_mask = (void *)(done + p.cq_off.ring_mask);
    ring.done = (void *)(done + p.cq_off.cqes);
    return ring;
}

/* Submits a request without waiting for its completion. */
static void submit(struct ring *ring, struct io_uring_sqe entry) {
    unsigned tail = *ring->submit_tail, at = tail & *ring->submit_mask;

    ring->entries[at] = entry;
    ring->submit_array[at] = at;
    __atomic_store_n(ring->submit_tail, tail + 1, __ATOMIC_SEQ_CST);
    if (syscall(SYS_io_uring_enter, ring->descriptor, 1, 0, 0, 0, 0) < 0)
        err(1, "io_uring_enter");
}

/* Runs one request to its end; returns its result. */
static int request(struct ring *ring, struct io_uring_sqe entry, int polled) {
    unsigned tail = *ring->submit_tail, at = tail & *ring->submit_mask, head = *ring->done_head;
    int result, wake = 0;

    ring->entries[at] = entry;
    ring->submit_array[at] = at;
    __atomic_store_n(ring->submit_tail, tail + 1, __ATOMIC_SEQ_CST);
    if (polled)
        wake = __atomic_load_n(ring->submit_flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP
                   ? IORING_ENTER_SQ_WAKEUP
                   : 0;
    if (syscall(SYS_io_uring_enter, ring->descriptor, polled ? 0 : 1, 1,
                IORING_ENTER_GETEVENTS | wake, 0, 0) < 0)
        err(1, "io_uring_enter");
    while (__atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE) == head)
        ;
    result = ring->done[head & *ring->done_mask].res;
    __atomic_store_n(ring->done_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

static void aio(int file, char *block, long requests, size_t bytes) {
    aio_context_t context = 0;

    if (syscall(SYS_io_setup, 8, &context))
        err(1, "io_setup");
    for (long at = 0; at < requests; at++) {
        struct iocb one = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                           .aio_fildes = file,
                           .aio_buf = (__u64)block,
                           .aio_nbytes = bytes};
        struct iocb *list[1] = {&one};
        struct io_event event;

        if (syscall(SYS_io_submit, context, 1, list) != 1 ||
            syscall(SYS_io_getevents, context, 1, 1, &event, 0) != 1)
            err(1, "io_submit");
    }
}

int main(int count, char **words) {
    char *way = words[1], *block;
    int polled, file, expected, ends[2];
    long requests;
    size_t bytes;
    struct ring ring;
    struct iovec vector;
    struct io_uring_sqe entry = {};

    if (count != 5)
        errx(2, "usage: uring WAY FILE REQUESTS BYTES");
    requests = atol(words[3]), bytes = atol(words[4]);
    polled = !strcmp(way, "polled");
    block = calloc(1, bytes);
    file = open(words[2], O_CREAT | (strcmp(way, "bad") ? O_RDWR : O_RDONLY), 0600);
    if (file < 0 || !block)
        err(1, "%s", words[2]);
    if (!strcmp(way, "aio")) {
        aio(file, block, requests, bytes);
        return 0;
    }
    ring = ring_of(polled);
    vector = (struct iovec){block, bytes};
    entry = (struct io_uring_sqe){
        .opcode = IORING_OP_WRITE, .fd = file, .addr = (__u64)block, .len = bytes};
    expected = bytes;
    if (!strcmp(way, "vector"))
        entry.opcode = IORING_OP_WRITEV, entry.addr = (__u64)&vector, entry.len = 1;
    if (!strcmp(way, "read"))
        entry.opcode = IORING_OP_READ;
    if (!strcmp(way, "sync"))
        entry = (struct io_uring_sqe){.opcode = IORING_OP_FSYNC, .fd = file}, expected = 0;
    if (!strcmp(way, "bad"))
        expected = -EBADF;
    if (!strcmp(way, "registered")) {
        if (syscall(SYS_io_uring_register, ring.descriptor, IORING_REGISTER_FILES, &file, 1))
            err(1, "io_uring_register");
        entry.fd = 0, entry.flags = IOSQE_FIXED_FILE;
    }
    if (!strcmp(way, "fixed")) {
        struct iovec buffer = {block, bytes};

        if (syscall(SYS_io_uring_register, ring.descriptor, IORING_REGISTER_BUFFERS, &buffer, 1))
            err(1, "io_uring_register");
        entry.opcode = WRITEV_FIXED, entry.addr = (__u64)&vector, entry.len = 1;
    }
    if (!strcmp(way, "splice") && pipe(ends))
        err(1, "pipe");
    if (!strcmp(way, "splice"))
        entry = (struct io_uring_sqe){.opcode = IORING_OP_SPLICE,
                                      .fd = file,
                                      .off = -1,
                                      .splice_fd_in = ends[0],
                                      .splice_off_in = -1,
                                      .len = bytes};
    if (!strcmp(way, "silent"))
        entry.flags = IOSQE_CQE_SKIP_SUCCESS;
    if (!strcmp(way, "silent") || !strcmp(way, "crowded")) {
        for (long at = 0; at < requests; at++)
            submit(&ring, entry);
        usleep(500000); /* the kernel cancels requests at the process's end */
        return 0;
    }
    for (long at = 0; at < requests; at++) {
        int result;

        if (!strcmp(way, "splice") && write(ends[1], block, bytes) != (ssize_t)bytes)
            err(1, "write");
        result = request(&ring, entry, polled);
        if (result == -EINVAL && !strcmp(way, "fixed"))
            return 77;
        if (result != expected)
            errx(1, "a request returned %d instead of %d", result, expected);
    }
    return 0;
}
