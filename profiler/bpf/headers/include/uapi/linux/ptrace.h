/* Only named, by functions of BCC's helpers.h that no tracepoint program calls. */
struct pt_regs;
