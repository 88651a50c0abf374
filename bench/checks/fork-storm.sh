# why: configure scripts, make -j
# out: use --isolation microvm
i=0; while [ $i -lt 2000 ]; do /bin/true || exit 1; i=$((i + 1)); done
