# why: emulators and virtual machines in the box
# out: run them on the host
exec python3 - <<'EOF'
import os
os.close(os.open("/dev/kvm", os.O_RDWR))
EOF
