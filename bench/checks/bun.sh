# why: native program of the npm world
# out: use --isolation microvm
# packages: nodejs npm ca-certificates
npm install --silent --no-audit --no-fund --prefix npm-bun bun@1.4.5 >out 2>&1 || { tail -1 out; exit 1; }
cd npm-bun && npx bun --version >out 2>&1
grep -q "1.4.5" out || { tail -1 out; exit 1; }
