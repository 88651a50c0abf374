# why: editors, and agents that navigate code
# out: use --isolation microvm
# packages: clangd
printf 'int main(void) { return 0; }\n' >l.c
clangd --check=l.c >out 2>&1 || { tail -1 out; exit 1; }
