# why: tests against a database
# out: use --isolation microvm
# packages: postgresql
bin=$(ls -d /usr/lib/postgresql/*/bin) && $bin/initdb -D pg >out 2>&1 && $bin/pg_ctl -D pg -w -o "-k $PWD -p 5999" -l pg.log start >out 2>&1 || { tail -1 out pg.log; exit 1; }
psql -h "$PWD" -p 5999 -Atc 'select 6*7' postgres >out 2>&1; $bin/pg_ctl -D pg stop >/dev/null
grep -qx 42 out || { tail -1 out; exit 1; }
