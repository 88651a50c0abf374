# why: rootless containers, sandboxes of browsers
# out: use --isolation microvm
exec unshare --user --map-root-user id -u 2>&1
