/*
 * Calls on an open file: what they count in follows from the file behind the descriptor. A program
 * that the session does not ask for is not compiled (loader.py defines USE_ and its name).
 */

/* The slots that a call of this type on a descriptor may go to, and UNBACKED. */
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
        return 0; /* what is on no mounted file system lies in no place either */
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
    return enter_on(call->arguments[0], READ, 0);
}
#endif

#ifdef USE_enter_write
int enter_write(struct sys_enter *call) {
    return enter_on(call->arguments[0], WRITE, 0);
}
#endif

#ifdef USE_enter_copy
/* From one file to another: splice and copy_file_range, the third argument is the target. */
int enter_copy(struct sys_enter *call) {
    return enter_on(call->arguments[2], WRITE, 0);
}
#endif

#ifdef USE_enter_seek
int enter_seek(struct sys_enter *call) {
    u64 file = file_of(call->arguments[0]);
    return enter_on(call->arguments[0], SEEK, word_at(file + OFFSET_FILE_POSITION));
}
#endif

#ifdef USE_enter_mmap
int enter_mmap(struct sys_enter *call) {
    return enter_on(call->arguments[4], MMAP, call->arguments[1]);
}
#endif

#ifdef USE_enter_glob
int enter_glob(struct sys_enter *call) {
    return enter_on(call->arguments[0], GLOB, 0);
}
#endif

#ifdef USE_enter_aio
/* Linux AIO: the second argument is the number of requests. Of their ends no tracepoint tells. */
int enter_aio(struct sys_enter *call) {
    struct config *config = config_of_session();

    if (config && in_scope(config, current_thread()))
        lose_many(config, AIO_REQUESTS, call->arguments[1]);
    return 0;
}
#endif

#ifdef USE_enter_fsync
int enter_fsync(struct sys_enter *call) {
    return enter_on(call->arguments[0], FSYNC, 0);
}
#endif
