// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Calls that connect internet and unix sockets; only rules for `/` cover them. */
#define AF_UNIX     1 /* include/linux/socket.h */
#define AF_INET     2
#define AF_INET6    10
#define S_IFMT      0170000 /* include/uapi/linux/stat.h */
#define S_IFSOCK    0140000
#define EINPROGRESS 115

static __always_inline int is_counted_socket(u64 file) {
    u64 inode = word_at(file + OFFSET_FILE_INODE), sock;
    u16 family;

    if ((half_at(inode + OFFSET_INODE_MODE) & S_IFMT) != S_IFSOCK)
        return 0;
    sock = word_at(word_at(file + OFFSET_FILE_DATA) + OFFSET_SOCKET_SOCK);
    family = half_at(sock + OFFSET_SOCK_FAMILY);
    return family == AF_UNIX || family == AF_INET || family == AF_INET6;
}

static __always_inline int enter_socket(u32 call_type, u32 descriptor) {
    struct config *config = config_of_session();
    struct thread *thread = current_thread();
    u64 file, slots;

    if (!config)
        return 0;
    note_entry(config, thread);
    if (!in_scope(config, thread))
        return 0;
    slots = config->slots_of_type[call_type] & config->slots_of_root;
    file = slots ? file_of(descriptor) : 0;
    if (!file || !is_counted_socket(file))
        return 0;
    return open_call(config, thread, call_type, slots, 0);
}

int enter_connect(struct sys_enter *call) {
    return enter_socket(CONNECT, ARGUMENT(call, 0));
}

int enter_accept(struct sys_enter *call) {
    return enter_socket(ACCEPT, ARGUMENT(call, 0));
}

/* A non-blocking socket continues to connect after the call, which succeeded. */
int leave_connect(struct sys_exit *call) {
    u64 end_ns = bpf_ktime_get_ns();
    long returned = RETURNED(call) == -EINPROGRESS ? 0 : RETURNED(call);
    return leave(config_of_session(), current_thread(), returned, end_ns);
}
