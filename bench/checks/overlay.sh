# why: builds of container images
# out: use fuse-overlayfs or the vfs driver
out=$(unshare --user --map-root-user --mount sh -c 'mkdir -p /tmp/o && mount -t tmpfs x /tmp/o && cd /tmp/o && mkdir l u w m && mount -t overlay x -o lowerdir=l,upperdir=u,workdir=w m && echo y >m/f && test -f u/f' 2>&1) || { echo "$out" | head -1; exit 1; }
