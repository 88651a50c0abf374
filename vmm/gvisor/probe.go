package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os/exec"
	"runtime"
	"syscall"

	"agentbox/agentbox"
	"agentbox/vmm"
	"agentbox/vmm/userns"
)

// formatVersion changes with the format of saved states, and with how machines are started. It is
// part of the fingerprint.
const formatVersion = 3

// Probe implements vmm.Driver. That namespaces can be made is remembered as long as the process
// lives, since the kernel takes milliseconds to get rid of the ones made to find out; should they
// be forbidden meanwhile, starting a machine says so. The programs are unpacked on the way. Errors
// have code Missing, with what to install or to switch on.
func (d *Driver) Probe(ctx context.Context, fresh bool) (vmm.Facts, error) {
	if err := ctx.Err(); err != nil {
		return vmm.Facts{}, err
	}
	if runtime.GOOS != "linux" {
		return vmm.Facts{}, agentbox.Errorf(agentbox.Missing, "gVisor runs on Linux only").WithHint("use --isolation microvm")
	}
	programs, err := d.programs.Ensure()
	if err != nil {
		return vmm.Facts{}, err
	}
	if _, err := userns.HostIDs(); err != nil {
		return vmm.Facts{}, err
	}
	if fresh || !d.tried.Load() {
		err := tryNamespaces(programs.Launch)
		if d.tried.Store(err == nil); err != nil {
			return vmm.Facts{}, err
		}
	}
	return vmm.Facts{Version: "gVisor " + programs.Version, Reason: "gVisor's Systrap platform needs no hardware virtualization"}, nil
}

// tryNamespaces starts the launcher without telling it anything: it ends at once. That it failed
// without a plan means that it ran, in namespaces that were made.
func tryNamespaces(program string) error {
	cmd := exec.Command(program)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: userns.Namespaces}
	err := cmd.Run()
	if _, ran := err.(*exec.ExitError); ran {
		return nil
	}
	return userns.Explain(err)
}

// Fingerprint implements vmm.Driver. It is the hex SHA-256 of everything that a checkpoint depends
// on: the programs, since gVisor restores no state of another version; the description, flags and
// size of the machine; the features of the host's CPU, which programs in the guest have seen; and
// the ids of the user. It contains no path of the host.
func (d *Driver) Fingerprint(ctx context.Context, spec vmm.Spec) (string, error) {
	parts, err := d.dependsOn(ctx, spec)
	if err != nil {
		return "", err
	}
	all := map[string]any{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	sum, err := digestOf(all)
	return hex.EncodeToString(sum[:]), err
}

// Basis implements vmm.Mover.
func (d *Driver) Basis(ctx context.Context, spec vmm.Spec) (map[string]agentbox.Digest, error) {
	parts, err := d.dependsOn(ctx, spec)
	if err != nil {
		return nil, err
	}
	out := map[string]agentbox.Digest{}
	for name, part := range parts {
		if out[name], err = digestOf(part); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// dependsOn is what a checkpoint depends on, by what people call it.
func (d *Driver) dependsOn(ctx context.Context, spec vmm.Spec) (map[string]map[string]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	programs, err := d.programs.Ensure()
	if err != nil {
		return nil, err
	}
	ids, err := userns.HostIDs()
	if err != nil {
		return nil, err
	}
	gpus, err := gpusOf(spec)
	if err != nil {
		return nil, err
	}
	return map[string]map[string]any{
		"build of agentbox":   {"format": formatVersion, "programs": programs.Digest, "spec": describe(spec.Memory, spec.Disk, gpus), "boot": bootArgv()},
		"features of the CPU": {"host": vmm.HostCPU("flags")},
		"size of the box":     {"cpus": spec.CPUs, "memory": spec.Memory, "disk": spec.Disk},
		"ids of the user":     {"ids": ids},
	}, nil
}

func digestOf(v map[string]any) (agentbox.Digest, error) {
	b, err := json.Marshal(v)
	return sha256.Sum256(b), err
}
