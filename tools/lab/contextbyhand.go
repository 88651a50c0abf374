package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/bench"
)

// byHand is what a person does without agentbox to get at what a colleague works on: podman pulls the same
// image from a registry on that machine, git clones the repository from there, and podman runs a command.
type byHand struct {
	o        *contextCluster
	dir      string
	run      string    // of podman, which wants a short name
	servers  []*server // a registry and git's, on the first machine
	registry string    // its program
}

// gitPort is a port of the first machine's namespace.
const gitPort = "9418"

// scenario needs programs that may not be here.
func (h *byHand) scenario(l *MeshLab) (bench.Scenario, error) {
	for _, program := range []string{"podman", "git", "runc"} { // crun refuses some hosts' control groups
		if _, err := exec.LookPath(program); err != nil {
			return bench.Scenario{}, agentbox.Errorf(agentbox.Missing, "%s is not installed", program)
		}
	}
	registry, err := filepath.Abs(h.registry)
	if err == nil {
		h.registry = registry
		_, err = os.Stat(registry)
	}
	if err != nil {
		return bench.Scenario{}, agentbox.Errorf(agentbox.Missing, "%s: there is no registry", h.registry).WithHint("make bench-peers, and then --peers build/peers")
	}
	return l.scenario("context/by-hand", "", h.sample), nil
}

// image is the name of the image in the registry.
func (h *byHand) image() string {
	return h.o.links.Address(0).String() + ":" + registryPort + "/bench/context:latest"
}

// on runs a program on a machine, and podman with a store of that machine's own.
func (h *byHand) on(ctx context.Context, i int, argv ...string) error {
	if argv[0] == "podman" {
		store := filepath.Join(h.dir, h.o.links.Name(i))
		argv = append([]string{"podman", "--root", filepath.Join(store, "root"), "--runroot", filepath.Join(h.run, h.o.links.Name(i)), "--cgroup-manager=cgroupfs", "--runtime=runc", "--events-backend=none"}, argv[1:]...)
	}
	// ip netns exec would hide the control groups, without which podman runs nothing.
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--net=/run/netns/" + h.o.links.Name(i)}, argv...)...)
	var complaints bytes.Buffer
	cmd.Dir, cmd.Stderr = h.dir, &complaints
	if err := cmd.Run(); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "%s: %w: %.500s", argv[0], err, strings.TrimSpace(complaints.String()))
	}
	return nil
}

// open puts the files of the agent's box into the registry, as an image, and serves the repository.
func (h *byHand) open(ctx context.Context) error {
	if h.servers != nil {
		return nil
	}
	h.dir = filepath.Join(h.o.l.dir, "by-hand")
	if err := os.MkdirAll(filepath.Join(h.dir, "registry"), 0o755); err != nil {
		return err
	}
	var err error
	if h.run, err = os.MkdirTemp("", "hand-"); err != nil {
		return err
	}
	conf, err := writeRegistryConfig(filepath.Join(h.dir, "registry"), h.o.links.Address(0).String()+":"+registryPort)
	if err != nil {
		return err
	}
	for _, argv := range [][]string{
		{h.registry, "serve", conf},
		{"git", "daemon", "--reuseaddr", "--export-all", "--listen=" + h.o.links.Address(0).String(), "--port=" + gitPort, "--base-path=" + filepath.Dir(h.o.repo)},
	} {
		s, err := serve(ctx, h.o.links, 0, h.dir, []string{"OTEL_TRACES_EXPORTER=none"}, false, argv[0], argv[1:]...)
		if err != nil {
			return err
		}
		h.servers = append(h.servers, s)
	}
	files := filepath.Join(h.dir, "files.tar")
	if err := h.o.output(ctx, 0, files, "exec", "--user", "root", contextBox, "--", "tar", "-C", "/", "--exclude=./proc", "--exclude=./sys", "--exclude=./dev", "--exclude=./workspace", "-cf", "-", "."); err != nil {
		return err
	}
	if err := h.on(ctx, 0, "podman", "import", "-q", files, h.image()); err != nil {
		return err
	}
	return retryUntil(ctx, func() error { return h.on(ctx, 0, "podman", "push", "-q", "--tls-verify=false", h.image()) })
}

// sample is one sample: of a machine that has nothing.
func (h *byHand) sample(ctx context.Context) (took time.Duration, err error) {
	if err := h.open(ctx); err != nil {
		return 0, err
	}
	clone := filepath.Join(h.dir, "clone")
	defer func() {
		err = errors.Join(err, h.on(ctx, 1, "podman", "rmi", "-af"), os.RemoveAll(filepath.Join(h.dir, h.o.links.Name(1))), os.RemoveAll(clone))
	}()
	start := time.Now()
	for _, argv := range [][]string{
		{"podman", "pull", "-q", "--tls-verify=false", h.image()},
		{"git", "clone", "-q", "git://" + h.o.links.Address(0).String() + ":" + gitPort + "/" + filepath.Base(h.o.repo), clone},
		{"podman", "run", "--rm", "--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "-v", clone + ":/workspace", "-w", "/workspace", h.image(), "true"},
	} {
		if err := h.on(ctx, 1, argv...); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func (h *byHand) close() (err error) {
	for _, s := range h.servers {
		err = errors.Join(err, s.close())
	}
	if h.run != "" {
		err = errors.Join(err, os.RemoveAll(h.run))
	}
	return err
}
