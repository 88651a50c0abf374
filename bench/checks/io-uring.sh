# why: fast disk input and output of newer programs
# out: most programs fall back to epoll by themselves
exec python3 - <<'EOF'
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
if c.syscall(425, 4, ctypes.create_string_buffer(256)) < 0: exit("io_uring_setup: " + os.strerror(ctypes.get_errno()))
EOF
