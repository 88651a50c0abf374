# why: containers of a compose file, testcontainers
# out: run what they contain as services: of agentbox.yaml
# packages: docker.io iptables busybox-static sudo
sudo sh -c '
  cd /sys/fs/cgroup
  if ! test -e cgroup.controllers && ! mountpoint -q devices; then
    mount -t tmpfs cgroup . && cd /sys/fs/cgroup
    for c in cpu cpuacct cpuset devices memory pids; do mkdir $c && mount -t cgroup -o $c cgroup $c; done
  fi
  exec dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs >/tmp/dockerd.log 2>&1' &
for i in $(seq 100); do sudo docker info >/dev/null 2>&1 && break; sleep 0.2; done
sudo docker info >/dev/null 2>&1 || { echo "dockerd does not start: $(tail -1 /tmp/dockerd.log)"; exit 1; }
mkdir -p image && cp /bin/busybox image/ && printf 'FROM scratch\nCOPY busybox /bin/busybox\nCMD ["/bin/busybox", "echo", "hello from a container"]\n' >image/Dockerfile
sudo docker build -q --network host -t check image >out 2>&1 && sudo docker run --rm --network host check >out 2>&1
grep -q 'hello from a container' out && sudo pkill dockerd || { tail -1 out; sudo pkill dockerd; exit 1; }
