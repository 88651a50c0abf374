# why: watchers of large repositories
# out: use --isolation microvm
exec python3 - <<'EOF'
import ctypes, os, tempfile
c = ctypes.CDLL(None, use_errno=True)
d = tempfile.mkdtemp(dir=".")
fd = c.inotify_init()
for i in range(10000):
    os.mkdir("%s/%d" % (d, i))
    if c.inotify_add_watch(fd, ("%s/%d" % (d, i)).encode(), 0xfff) < 0:
        exit("watch %d: %s" % (i, os.strerror(ctypes.get_errno())))
EOF
