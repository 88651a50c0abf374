# why: package managers, databases
# out: use --isolation microvm
exec python3 - <<'EOF'
import fcntl, os
f = open("locked", "w"); fcntl.flock(f, fcntl.LOCK_EX)
g = open("ranged", "w"); fcntl.lockf(g, fcntl.LOCK_EX)
if os.fork() == 0:
    for name, lock in (("locked", fcntl.flock), ("ranged", fcntl.lockf)):
        try: lock(open(name, "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: continue
        print(name + ": two processes have the same lock"); os._exit(1)
    os._exit(0)
exit(os.waitstatus_to_exitcode(os.wait()[1]))
EOF
