# why: development servers and their tests
# out: use --isolation microvm
exec python3 - <<'EOF'
import socket
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    s = socket.socket(family); s.bind((host, 0)); s.listen()
    c = socket.create_connection(s.getsockname()[:2], timeout=10); p, _ = s.accept()
    p.send(b"hello")
    if c.recv(5) != b"hello": exit("nothing arrives at " + host)
EOF
