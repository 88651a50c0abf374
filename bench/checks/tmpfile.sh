# why: atomic writes without a name (O_TMPFILE)
# out: use --isolation microvm
exec python3 - <<'EOF'
import os
fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600)
os.write(fd, b"x")
os.link("/proc/self/fd/%d" % fd, "named", follow_symlinks=True)
if open("named").read() != "x": exit("the content is lost")
EOF
