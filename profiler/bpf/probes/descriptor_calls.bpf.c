// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Calls on an open file: the file behind the descriptor determines their slots. Programs that the
 * session does not request are not compiled (loader.py defines USE_ and the name).
 */

/* The slots that may count a call of this type on a descriptor, and UNBACKED. */
static __always_inline u64 slots_of_descriptor(u32 descriptor, u32 call_type,
                                               struct config *config) {
    u64 wanted = config->slots_of_type[call_type];
    u64 slots = wanted & config->slots_of_root, at_places = wanted & config->slots_of_places;
    u64 file, kind;

    if (!wanted)
        return 0;
    file = file_of(descriptor);
    kind = file ? kind_of(file) : 0;
    if (!kind)
        return 0; /* not on a mounted file system, so below no path */
    if (at_places)
        slots |= slots_by_place(file + OFFSET_FILE_PATH, 0, at_places, config);
    return slots ? (slots | UNBACKED) & kind : 0;
}

static __always_inline int enter_on(u32 descriptor, u32 call_type, u64 value) {
    struct config *config = config_of_session();
    struct thread *thread = current_thread();

    if (!config)
        return 0;
    note_entry(config, thread);
    if (!in_scope(config, thread))
        return 0;
    return open_call(config, thread, call_type, slots_of_descriptor(descriptor, call_type, config),
                     value);
}

#ifdef USE_enter_read
int enter_read(struct sys_enter *call) {
    return enter_on(ARGUMENT(call, 0), READ, 0);
}
#endif

#ifdef USE_enter_write
int enter_write(struct sys_enter *call) {
    return enter_on(ARGUMENT(call, 0), WRITE, 0);
}
#endif

#ifdef USE_enter_copy
/* splice and copy_file_range: the third argument is the target. */
int enter_copy(struct sys_enter *call) {
    return enter_on(ARGUMENT(call, 2), WRITE, 0);
}
#endif

#ifdef USE_enter_seek
int enter_seek(struct sys_enter *call) {
    u64 file = file_of(ARGUMENT(call, 0));
    return enter_on(ARGUMENT(call, 0), SEEK, word_at(file + OFFSET_FILE_POSITION));
}
#endif

#ifdef USE_enter_mmap
int enter_mmap(struct sys_enter *call) {
    return enter_on(ARGUMENT(call, 4), MMAP, ARGUMENT(call, 1));
}
#endif

#ifdef USE_enter_glob
int enter_glob(struct sys_enter *call) {
    return enter_on(ARGUMENT(call, 0), GLOB, 0);
}
#endif

#ifdef USE_enter_aio
/* Linux AIO: the second argument is the number of requests, whose end no tracepoint reports. */
int enter_aio(struct sys_enter *call) {
    struct config *config = config_of_session();

    if (config && in_scope(config, current_thread()))
        lose_many(config, AIO_REQUESTS, ARGUMENT(call, 1));
    return 0;
}
#endif

#ifdef USE_enter_fsync
int enter_fsync(struct sys_enter *call) {
    return enter_on(ARGUMENT(call, 0), FSYNC, 0);
}
#endif
