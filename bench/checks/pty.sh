# why: terminals, expect
# out: use --isolation microvm
exec python3 - <<'EOF'
import os, pty
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "test -t 0 && tty"])
out = os.read(fd, 1000)
if b"/dev/pts/" not in out: exit("the child of a terminal sees none: %r" % out)
EOF
