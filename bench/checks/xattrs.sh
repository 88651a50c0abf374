# why: packaging, ACLs
# out: use --isolation microvm
exec python3 - <<'EOF'
import os
open("x", "w"); os.setxattr("x", "user.key", b"value")
if os.getxattr("x", "user.key") != b"value": exit("the value is lost")
EOF
