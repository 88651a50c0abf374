# why: native program of the npm world
# out: use --isolation microvm
# packages: nodejs npm ca-certificates
npm install --silent --no-audit --no-fund --prefix npm-deno deno@2.9.6 >out 2>&1 || { tail -1 out; exit 1; }
cd npm-deno && npx deno --version >out 2>&1
grep -q "deno 2.9.6" out || { tail -1 out; exit 1; }
