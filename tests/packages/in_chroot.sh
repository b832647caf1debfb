#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a shell script in a layered root file system and in separate namespaces: nothing of the
# host is mounted there, no process or mount is left, and the kernel's settings are read-only.
#
#   in_chroot.sh LAYERS UPPER SCRIPT     LAYERS: overlayfs' lowerdir; UPPER: gets what changes
set -eu
layers=$1 upper=$2
path=/usr/sbin:/usr/bin:/sbin:/bin
export PATH=$path

if [ "${3-}" ]; then # outside: $3 is the script
    mkdir -p "$upper/changed" "$upper/work" "$upper/root"
    exec unshare --mount --pid --ipc --uts --fork --kill-child --propagation private \
        "$0" "$layers" "$upper" "" "$3"
fi
mount -t overlay -o "lowerdir=$layers,upperdir=$upper/changed,workdir=$upper/work" overlay "$upper/root"
cd "$upper/root"
cat /etc/resolv.conf >etc/resolv.conf
pivot_root . mnt
cd /
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
umount -l /mnt # with it go the copies of the host's mounts
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
exec env -i PATH=$path HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc "$4"
