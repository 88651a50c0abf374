# why: git, pnpm
# out: use --isolation microvm
echo x >linked && ln linked linked2 && [ "$(stat -c %h linked)" = 2 ] || { echo "two names, but not two links"; exit 1; }
