# why: databases, linkers
# out: use --isolation microvm
exec python3 - <<'EOF'
import mmap, os
f = open("mapped", "w+b"); f.truncate(8192)
m = mmap.mmap(f.fileno(), 8192)
if os.fork() == 0:
    m[4096:4100] = b"here"; os._exit(0)
os.wait()
if m[4096:4100] != b"here": exit("another process's write to a shared mapping is not seen")
m.flush()
if open("mapped", "rb").read()[4096:4100] != b"here": exit("a write through a mapping is not in the file")
EOF
