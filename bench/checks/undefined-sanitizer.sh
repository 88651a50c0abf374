# why: C, C++ and Rust tests with -fsanitize=undefined
# out: use --isolation microvm
cat >s.c <<'EOF'
#include <limits.h>
int main(int c, char **v) { volatile int n = INT_MAX; n += c; return n == 0; }
EOF
cc -g -fsanitize=undefined -o s s.c || exit 1
./s >out 2>&1
grep -q "signed integer overflow" out || { head -c 300 out | tail -1; echo "the sanitizer finds nothing"; exit 1; }
