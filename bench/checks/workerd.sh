# why: native program of the npm world
# out: use --isolation microvm
# packages: nodejs npm ca-certificates
npm install --silent --no-audit --no-fund --prefix npm-workerd workerd@1.20261117.1 >out 2>&1 || { tail -1 out; exit 1; }
cd npm-workerd && npx workerd --version >out 2>&1
grep -q "workerd" out || { tail -1 out; exit 1; }
