# why: tests in a headless browser
# out: use --isolation microvm
# packages: chromium
printf '<title>x</title><script>document.title = 6 * 7</script>' >page.html
timeout 120 chromium --headless --no-sandbox --disable-dev-shm-usage --disable-gpu --dump-dom "file://$PWD/page.html" >out 2>err
grep -q '<title>42</title>' out || { tail -1 err; echo "the page's script did not run"; exit 1; }
