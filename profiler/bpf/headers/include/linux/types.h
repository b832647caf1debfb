// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The kernel's names for fixed-width types that BCC's helpers.h and the probes need. */
#ifndef WRITEWISE_LINUX_TYPES_H
#define WRITEWISE_LINUX_TYPES_H

typedef __INT8_TYPE__ s8;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;

typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef long long __s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef unsigned long long __u64;
typedef __u64 __aligned_u64 __attribute__((aligned(8)));
typedef u16 __le16, __be16;
typedef u32 __le32, __be32, __wsum;
typedef u64 __le64, __be64;
typedef u16 __sum16;

typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef _Bool bool;
/* Type names in the format files of tracepoints. */
typedef int pid_t;
typedef u32 dev_t;
typedef u64 sector_t;
typedef long long loff_t;
typedef u32 umode_t;
typedef unsigned long ino_t;
typedef int rwf_t;

enum { false = 0, true = 1 };
#define NULL            ((void *)0)
#define __always_inline inline __attribute__((always_inline))

#endif
