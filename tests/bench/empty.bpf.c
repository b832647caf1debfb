/* The floor: what a tracepoint's program costs that does nothing. */
int nothing(void *context) {
    return 0;
}
