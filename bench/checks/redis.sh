# why: tests against a cache
# out: use --isolation microvm
# packages: redis-server
redis-server --port 5998 --daemonize yes --save '' >out 2>&1 || { tail -1 out; exit 1; }
for i in $(seq 50); do redis-cli -p 5998 ping >out 2>&1 && break; sleep 0.1; done
redis-cli -p 5998 shutdown nosave >/dev/null 2>&1
grep -q PONG out || { tail -1 out; exit 1; }
