# why: C, C++ and Rust tests with -fsanitize=thread
# out: use --isolation microvm
cat >s.c <<'EOF'
#include <pthread.h>
int n;
void *f(void *p) { n++; return p; }
int main(void) { pthread_t a, b; pthread_create(&a, 0, f, 0); pthread_create(&b, 0, f, 0); pthread_join(a, 0); pthread_join(b, 0); return 0; }
EOF
cc -g -fsanitize=thread -o s s.c -pthread || exit 1
./s >out 2>&1
grep -q "data race" out || { head -c 300 out | tail -1; echo "the sanitizer finds nothing"; exit 1; }
