# why: debugging
# out: use --isolation microvm
# packages: gdb
printf 'int f(int x) { return x + 1; }\nint main(void) { return f(41) - 42; }\n' >g.c && cc -g -o g g.c || exit 1
gdb -q -batch -ex 'break f' -ex run -ex 'print x' ./g >out 2>&1
grep -q '= 41' out || { tail -3 out; exit 1; }
