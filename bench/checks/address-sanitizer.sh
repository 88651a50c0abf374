# why: C, C++ and Rust tests with -fsanitize=address
# out: use --isolation microvm
cat >s.c <<'EOF'
#include <stdlib.h>
int main(void) { volatile char *p = malloc(8); return p[8]; }
EOF
cc -g -fsanitize=address -o s s.c -pthread || exit 1
./s >out 2>&1
grep -q "heap-buffer-overflow" out || { head -c 300 out | tail -1; echo "the sanitizer finds nothing"; exit 1; }
