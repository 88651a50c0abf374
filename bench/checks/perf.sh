# why: perf and profilers of processors
# out: use a profiler that samples by signals, as pprof and py-spy do
exec python3 - <<'EOF'
import ctypes, os, struct
c = ctypes.CDLL(None, use_errno=True)
attr = struct.pack("IIQ", 1, 112, 0) + bytes(96)
if c.syscall(298, attr, 0, -1, -1, 0) < 0: exit("perf_event_open: " + os.strerror(ctypes.get_errno()))
EOF
