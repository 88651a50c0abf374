# why: file watchers of development servers
# out: use --isolation microvm
exec python3 - <<'EOF'
import ctypes, os, select, tempfile
c = ctypes.CDLL(None, use_errno=True)
d = tempfile.mkdtemp(dir=".")
fd = c.inotify_init1(os.O_NONBLOCK)
if fd < 0 or c.inotify_add_watch(fd, d.encode(), 0xfff) < 0: exit("no watch: " + os.strerror(ctypes.get_errno()))
def seen(what):
    if not select.select([fd], [], [], 10)[0]: exit("no event of " + what)
    os.read(fd, 65536)
if os.fork() == 0:
    open(d + "/a", "w").write("x")
    os._exit(0)
os.wait(); seen("an edit by another process")
os.rename(d + "/a", d + "/b"); seen("a rename")
EOF
