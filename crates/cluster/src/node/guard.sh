# Holds the one node of a machine for whoever started this, and removes it when they are gone, in whatever way: their end of the
# pipe on standard input closes then. It goes by names that are only ours, so it also removes what an earlier node left behind.
lock=$1 root=$2 state=$3 bridge=$4 cgroup=$5

cgroups() {
  for place in "/sys/fs/cgroup/$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
    [ -d "$place" ] && [ ! -L "${place%/*}" ] && echo "$place"
  done
}

# Processes of containers. Some may be on their way, so this is done until there are none.
kill_containers() {
  for _ in $(seq 200); do
    members=$(for place in $(cgroups); do find "$place" -name cgroup.procs -exec cat {} +; done 2>/dev/null | sort -u)
    [ -n "$members" ] || return
    kill -KILL $members 2>/dev/null
    sleep 0.05
  done
}

# Processes that containerd starts to own containers, and that outlive it: each was told our socket.
kill_shims() {
  for line in $(grep -lzxF "$state/containerd.sock" /proc/[0-9]*/cmdline 2>/dev/null); do
    process=${line%/cmdline}
    [ "$(cat "$process/comm" 2>/dev/null)" = containerd-shim ] && kill -KILL "${process#/proc/}" 2>/dev/null
  done
}

clean() {
  kill_containers
  kill_shims
  # The innermost first.
  cut -d' ' -f2 /proc/self/mounts | grep -e "^$root/" -e "^$state/" | sort -r | while read -r place; do
    umount --lazy "$place" 2>/dev/null
  done
  for place in $(cgroups); do find "$place" -depth -type d -exec rmdir {} \; 2>/dev/null; done
  # With it go the far ends of the pods' cables.
  ip link delete "$bridge" 2>/dev/null
  rm -rf "$root" "$state"
}

exec 9>"$lock" && flock 9 || exit 1
clean 9>&-
echo ours
read -r _
clean 9>&-
