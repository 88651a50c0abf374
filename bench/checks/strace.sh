# why: looking at system calls
# out: look from the host, or use --isolation microvm
# packages: strace
strace -f -o trace sh -c 'cat /dev/null' && grep -q 'exit_group(0)' trace
