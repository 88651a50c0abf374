package qemu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/vmm"
)

const (
	// QEMU's names of accelerators, which are also vmm.Facts' and the configuration's.
	accelKVM = "kvm"
	accelTCG = "tcg"
)

// binary finds QEMU: an absolute path, or an error of code Missing.
func (d *Driver) binary() (string, error) {
	name := d.config.Binary
	if name == "" {
		name = "qemu-system-x86_64"
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "QEMU (%s) is not installed", name).WithHint("apt-get install qemu-system-x86")
	}
	return program, nil
}

// Probe implements vmm.Driver. A first call may boot a guest to try KVM; other calls wait for it
// and then find the verdict. fresh drops verdict and version, but no digests.
func (d *Driver) Probe(ctx context.Context, fresh bool) (vmm.Facts, error) {
	program, err := d.binary()
	if err != nil {
		return vmm.Facts{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.loadMemo()
	if fresh {
		*known = memo{Digests: known.Digests}
		d.noKernel = nil
	}
	version, err := d.version(ctx, known, program)
	if err != nil {
		return vmm.Facts{}, err
	}
	facts := vmm.Facts{Version: version}
	switch d.config.Accel {
	case accelKVM, accelTCG:
		facts.Accel, facts.Reason = d.config.Accel, "chosen by configuration"
	default:
		v, err := d.kvmVerdict(ctx, known, version)
		if err != nil {
			return vmm.Facts{}, err
		}
		facts.Accel, facts.Reason = accelTCG, v.Reason
		if v.Works {
			facts.Accel = accelKVM
		}
	}
	facts.Hardware = facts.Accel == accelKVM
	return facts, d.saveMemo(known)
}

// version is QEMU's, remembered as long as the program is the same file. d.mu is held.
func (d *Driver) version(ctx context.Context, known *memo, program string) (string, error) {
	id, err := identify(program)
	if err != nil || known.Binary == id {
		return known.Version, err
	}
	version, err := qemuVersion(ctx, program)
	if err != nil {
		return "", err
	}
	known.Binary, known.Version, known.changed = id, version, true
	return version, nil
}

func qemuVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, quickCommand)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Missing, "%s does not run: %w", program, err).WithHint("apt-get install --reinstall qemu-system-x86")
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "QEMU emulator version ")), nil
}

// Fingerprint implements vmm.Driver: the hex SHA-256 of everything that a saved state depends on.
// That is the command line of an abstract machine, without name and paths but with its kernel
// arguments, the bytes of QEMU, kernel and initrd (and so the guest agent), and the format of our
// files; under KVM also the CPU, whose features the guest has seen. Of spec it uses Kernel, CPUs,
// Memory and Disk.
func (d *Driver) Fingerprint(ctx context.Context, spec vmm.Spec) (string, error) {
	facts, err := d.Probe(ctx, false)
	if err != nil {
		return "", err
	}
	abstract := describe(&machine{spec: vmm.Spec{CPUs: spec.CPUs, Memory: spec.Memory}}, facts.Accel)
	about := struct {
		Format         int
		Version        string
		Argv           []string
		Disk           int64
		Binary         string
		Kernel, Initrd string
		CPU            string
	}{Format: formatVersion, Version: facts.Version, Argv: abstract.argv(), Disk: spec.Disk}
	if facts.Accel == accelKVM {
		about.CPU = vmm.HostCPU("model name", "stepping", "microcode", "flags") // -cpu host passes it through
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.loadMemo()
	// By digest: a template is good on any host with the same program (the team's, say).
	if about.Binary, err = known.digest(known.Binary.Path); err != nil {
		return "", err
	}
	if about.Kernel, err = known.digest(filepath.Join(spec.Kernel, kernelFile)); err != nil {
		return "", err
	}
	if about.Initrd, err = known.digest(filepath.Join(spec.Kernel, initrdFile)); err != nil {
		return "", err
	}
	if err := d.saveMemo(known); err != nil {
		return "", err
	}
	b, err := json.Marshal(about)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
