# why: a crash that is looked at later
# out: run the program in gdb
printf 'int main(void) { return *(volatile int *)0; }\n' >crash.c && cc -o crash crash.c || exit 1
ulimit -c unlimited; ./crash 2>/dev/null
ls core* >/dev/null 2>&1 || { echo "no core file in the directory; core_pattern is $(cat /proc/sys/kernel/core_pattern 2>&1)"; exit 1; }
