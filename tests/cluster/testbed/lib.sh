# shellcheck shell=bash disable=SC2034 # the commands that source this use the names
# Names, addresses and small functions shared by the commands in this folder. Sourced, never run.

TESTBED_HOME=${TESTBED_HOME:-/var/tmp/argo-testbed}   # everything that is built, cached or running
TESTBED_NAME=${TESTBED_NAME:-argo-testbed}            # one running testbed: its netns, cgroup and run folder

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=$TESTBED_HOME/bin
SRC=$TESTBED_HOME/src                                 # build folder: go.mod files and Argo's patched source
ARGO_SOURCE=$SRC/argo/argo-workflows
IMAGES=$TESTBED_HOME/images                           # one OCI layout a name; `up` publishes all of them
RUN=$TESTBED_HOME/run/$TESTBED_NAME                   # state of the running testbed; `up` starts from an empty one
LOGS=$TESTBED_HOME/log/$TESTBED_NAME                  # outlives `down`, so that a failed CI run can be read
NETNS=/run/netns/$TESTBED_NAME

# All addresses live inside the testbed's own network namespace, so two testbeds never meet.
NODE_IP=10.77.0.1                                     # the node; not loopback, which the kubelet refuses
SERVICE_IP=10.96.0.1                                  # the service "kubernetes"
REGISTRY=$NODE_IP:5000
S3=$NODE_IP:9000
ARGO_SERVER_ADDRESS=$NODE_IP:2746
BUCKET=artifacts
S3_ACCESS_KEY=testbed                                 # fixed and harmless: reachable only inside the netns
S3_SECRET_KEY=testbed-secret
NAMESPACE=argo
FAKE_GPUS=96
VOLUME=$RUN/volume                                    # a folder for PersistentVolumes, empty after `up`

die() { printf 'testbed: %s\n' "$*" >&2; exit 1; }

require_root() { [ "$(id -u)" = 0 ] || die "must run as root (namespaces, mounts, cgroups)"; }

now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }

# report TITLE START_MS: one line with the time since START_MS.
report() {
  local ms=$(($(now_ms) - $2))
  printf '%-58s %4d.%d s\n' "$1" $((ms / 1000)) $((ms % 1000 / 100))
}

# step TITLE COMMAND…: runs COMMAND quietly and prints one line with its time; if it fails, the end of its output.
# It runs in the background only because bash ignores `set -e` in anything that stands before `||`.
step() {
  local title=$1 start log
  shift
  start=$(now_ms)
  mkdir -p "$LOGS"
  log=$LOGS/step-${1##*/}.log
  "$@" >"$log" 2>&1 </dev/null &
  if wait $!; then
    report "$title" "$start"
  else
    tail -n 25 "$log" >&2
    die "failed: $title (whole output: $log)"
  fi
}

# lock NAME: waits until no other command holds it. Whoever starts a daemon closes LOCK_FD for it.
lock() {
  local fd
  mkdir -p "$TESTBED_HOME/lock"
  exec {fd}>"$TESTBED_HOME/lock/$1"
  flock -w 900 "$fd" || die "another command has held the lock $1 for 15 minutes"
  LOCK_FD=$fd
}

# --- the running testbed

export TESTBED_HOME TESTBED_NAME RUN NODE_IP SERVICE_IP REGISTRY S3 BUCKET S3_ACCESS_KEY S3_SECRET_KEY NAMESPACE

# render FILE: the file with every @NAME@ replaced by the exported variable NAME.
render() {
  python3 -c '
import os, pathlib, re, sys
print(re.sub("@([A-Z0-9_]+)@", lambda match: os.environ[match[1]], pathlib.Path(sys.argv[1]).read_text()), end="")
' "$HERE/$1"
}

in_netns() { nsenter --net="$NETNS" "$@"; }

# is_up: `up` has finished and the namespaces still live.
is_up() { [ -e "$RUN/env" ] && [ -n "$(init_pid)" ]; }

# publish NAME: puts an image into the registry and prints its name with the digest.
publish() {
  in_netns skopeo --insecure-policy copy --quiet --dest-tls-verify=false --digestfile "$RUN/digest-$1" \
    "oci:$IMAGES/$1:latest" "docker://$REGISTRY/$1:latest" >&2
  echo "$REGISTRY/$1@$(cat "$RUN/digest-$1")"
}

# Every process of a testbed, from etcd to the last container, lives below one cgroup in every hierarchy. So what
# belongs to a testbed is found there even when everything died, and never by a process's name.
CGROUP=testbed-$TESTBED_NAME

cgroup_hierarchies() { # version 1 and hybrid: one folder a controller; version 2: the root itself
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
  else
    local folder
    for folder in /sys/fs/cgroup/*/; do
      [ ! -e "${folder}cgroup.procs" ] || echo "${folder%/}"
    done
  fi
}

testbed_pids() {
  local hierarchy
  for hierarchy in $(cgroup_hierarchies); do
    find "$hierarchy/$CGROUP" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done | sort -un
}

# init_pid: the process that holds the testbed's namespaces: number 1 in a PID namespace one level below this one.
init_pid() {
  local pid
  for pid in $(testbed_pids); do
    awk -v pid="$pid" '$1 == "NSpid:" && NF == 3 && $3 == 1 {print pid}' "/proc/$pid/status" 2>/dev/null || true
  done | head -n 1
}

join_cgroup() {
  local hierarchy
  for hierarchy in $(cgroup_hierarchies); do
    echo 0 >"$hierarchy/$CGROUP/daemons/cgroup.procs" # 0: the writer itself
  done
}

# start_daemon NAME: all its descriptors are its own, so that a caller that reads `up` through a pipe sees the end of it.
start_daemon() {
  local name=$1 init
  init=$(init_pid)
  [ -n "$init" ] || die "the testbed's process 1 is gone; see $LOGS/init.log"
  (
    join_cgroup
    cd "$RUN"
    # shellcheck disable=SC2016
    exec nsenter --target "$init" --mount --net --pid --wd="$RUN" -- setsid --fork \
      bash -c 'echo $$ >"pid/$1"; code=0; eval "$(cat "command/$1")" || code=$?; echo $code >"exit/$1"' _ "$name"
  ) >>"$LOGS/$name.log" 2>&1 </dev/null {LOCK_FD}>&-
}

# kill_daemon NAME: as a crash would, with all that it started; containers are containerd's and go on.
kill_daemon() {
  nsenter --target "$(init_pid)" --pid --mount -- kill -KILL -- "-$(cat "$RUN/pid/$1")"
}

# dead_daemons: the names of those that ended; each one's wrapper leaves its exit status.
dead_daemons() { (cd "$RUN/exit" 2>/dev/null && find . -type f -printf '%f\n' | paste -sd ' ') || true; }

# tear_down: removes all traces of a testbed, living, dead or half dead, except its logs.
tear_down() {
  local deadline=$((SECONDS + 15)) pids hierarchy
  # The first of them is the namespaces' init: with it the kernel ends all processes and unmounts all mounts in there.
  while pids=$(testbed_pids) && [ -n "$pids" ]; do
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null || true
    ((SECONDS < deadline)) || die "processes that do not end: ${pids//$'\n'/ }"
    sleep 0.1
  done
  if [ -e "$NETNS" ]; then ip netns delete "$TESTBED_NAME"; fi
  for hierarchy in $(cgroup_hierarchies); do
    [ ! -d "$hierarchy/$CGROUP" ] || find "$hierarchy/$CGROUP" -depth -type d -exec rmdir {} +
  done
  rm -rf --one-file-system "$RUN"
}
