# why: watching files in bundlers and VS Code
# out: use --isolation microvm
# packages: nodejs npm ca-certificates
npm install --silent --no-audit --no-fund --prefix npm-watcher @parcel/watcher@2.6.0 >out 2>&1 || { tail -1 out; exit 1; }
cd npm-watcher && mkdir -p seen && cat >w.js <<'EOF'
const fs = require("fs"), watcher = require("@parcel/watcher");
watcher.subscribe(__dirname + "/seen", (err, events) => { console.log(events.length > 0 ? "seen" : err); process.exit(0); })
  .then(() => fs.writeFileSync(__dirname + "/seen/a", "x"));
setTimeout(() => process.exit(1), 20000);
EOF
node w.js >out 2>&1
grep -q seen out || { tail -1 out; echo "no event"; exit 1; }
