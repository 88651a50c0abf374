# why: repositories with Makefile and makefile
# out: use --isolation microvm
echo 1 >Same && echo 2 >same && [ "$(cat Same)" = 1 ] || { echo "names that differ by case are one file"; exit 1; }
