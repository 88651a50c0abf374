# why: native program of the npm world
# out: use --isolation microvm
# packages: nodejs npm ca-certificates
npm install --silent --no-audit --no-fund --prefix npm-esbuild esbuild@0.28.2 >out 2>&1 || { tail -1 out; exit 1; }
cd npm-esbuild && npx esbuild --version >out 2>&1
grep -q "0.28.2" out || { tail -1 out; exit 1; }
