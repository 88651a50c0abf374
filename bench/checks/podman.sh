# why: containers of a compose file, testcontainers
# out: run what they contain as services: of agentbox.yaml
# packages: podman crun busybox-static sudo
printf '[containers]\nnetns = "host"\ncgroups = "disabled"\n' | sudo tee /etc/containers/containers.conf >/dev/null
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' | sudo tee /etc/containers/storage.conf >/dev/null
mkdir -p image && cp /bin/busybox image/ && printf 'FROM scratch\nCOPY busybox /bin/busybox\nCMD ["/bin/busybox", "echo", "hello from a container"]\n' >image/Dockerfile
sudo podman build -q -t check image >out 2>&1 && sudo podman run --rm check >out 2>&1
grep -q 'hello from a container' out || { tail -1 out; exit 1; }
