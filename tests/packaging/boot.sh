#!/bin/sh
# boot.sh TREE: run as the first process of new namespaces (unshare), makes TREE their root and becomes its systemd. The kernel's
# settings and devices are shown, not given: what a unit may do to them is decided by the unit, as on a machine.
set -eu
tree=$1
mount --make-rprivate /
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount --bind "$tree/proc/sys" "$tree/proc/sys"
mount -o remount,bind,ro "$tree/proc/sys"
mount -t sysfs -o ro sysfs "$tree/sys"
mount -t cgroup2 cgroup2 "$tree/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$tree/run"
mount -t tmpfs -o mode=755 tmpfs "$tree/dev"
for device in null:3 zero:5 full:7 random:8 urandom:9; do
  mknod -m 666 "$tree/dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 "$tree/dev/tty" c 5 0
mkdir "$tree/dev/pts" "$tree/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$tree/dev/pts"
ln -s pts/ptmx "$tree/dev/ptmx"
mount -t tmpfs tmpfs "$tree/dev/shm"
cd "$tree"
pivot_root . mnt
umount -l /mnt
exec env -i container=procfleet LC_ALL=C.UTF-8 /lib/systemd/systemd
