#!/bin/sh
# Becomes the systemd of a machine: a bare root below, what the machine writes above it. Runs in namespaces of its
# own (machine.sh), so that nothing of it is left when the machine ends.
#
# usage: boot.sh <bare root> <folder of the machine> <folder of fetched .deb files> <folder of packages>
set -eu

root=$2/root
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir "$root" "$2/upper" "$2/work"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$root"
mkdir -p "$root/packages" "$root/var/cache/apt/archives"
mount --bind "$3" "$root/var/cache/apt/archives"
mount --bind -o ro "$4" "$root/packages"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/run/below"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
cd "$root"
pivot_root . run/below
cd /
umount -l /run/below
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --log-target=null
