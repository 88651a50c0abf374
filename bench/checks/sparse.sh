# why: disk images, databases
# out: use --isolation microvm
truncate -s 1G hole && [ "$(stat -c %b hole)" -lt 100 ] || { echo "a hole of 1 GiB takes $(stat -c %b hole) blocks"; exit 1; }
