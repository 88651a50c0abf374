// Package gpu finds the GPUs of this host by their description for containers (CDI, which the
// vendor's tools write), and says what a machine has to be given to use them: devices, and the
// driver's files. It runs none of the hooks of a description: what they do for the loader, names for
// libraries, is done by giving a file under each of its names.
package gpu

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"agentbox/agentbox"
)

// class is that of devices which are GPUs, of any vendor.
const class = "gpu"

// Needs is what a machine with GPUs is given.
type Needs struct {
	Devices []Device
	Files   []File // read-only
}

// Device is a character device: /dev/nvidia0.
type Device struct {
	Source, Target string // on the host and in the machine
	Major, Minor   int64
}

// File is a file or directory of the host, and its path in the machine.
type File struct {
	Source, Target string
	Dir            bool
}

// Dirs are where descriptions lie.
var Dirs = cdi.DefaultSpecDirs

// Find returns what a machine needs for the first n GPUs, or for all of them if n is
// agentbox.AllGPUs. The error has code Missing, with what to do, for a host that has not as many.
func Find(dirs []string, n int) (Needs, error) {
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(dirs...))
	if err != nil {
		return Needs{}, err
	}
	names, err := choose(cache.ListDevices(), n)
	if err != nil {
		return Needs{}, err
	}
	var all []cdispec.ContainerEdits
	for _, name := range names {
		d := cache.GetDevice(name)
		if len(all) == 0 {
			all = append(all, d.GetSpec().ContainerEdits)
		}
		all = append(all, d.ContainerEdits)
	}
	return needsOf(all)
}

const hint = "for NVIDIA: install its driver and nvidia-container-toolkit, then nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

// choose picks the devices by their indices, as `VENDOR/gpu=0`, of the first vendor.
func choose(devices []string, n int) ([]string, error) {
	byIndex, vendor := map[string]string{}, ""
	for _, d := range slices.Sorted(slices.Values(devices)) {
		v, c, name, err := parser.ParseQualifiedName(d)
		if err != nil || c != class || vendor != "" && v != vendor {
			continue
		}
		vendor, byIndex[name] = v, d
	}
	var names []string
	for i := 0; n == agentbox.AllGPUs || i < n; i++ {
		d, ok := byIndex[fmt.Sprint(i)]
		if !ok {
			break
		}
		names = append(names, d)
	}
	switch {
	case len(names) == 0:
		return nil, agentbox.Errorf(agentbox.Missing, "no GPU of this host is described for boxes").WithHint(hint)
	case len(names) < n:
		return nil, agentbox.Errorf(agentbox.Missing, "this host has %s, and %d are asked for", agentbox.Plural(len(names), "GPU"), n).WithHint("set gpus: to %d, or to all", len(names))
	}
	return names, nil
}

// needsOf takes devices and files from edits, each target once.
func needsOf(all []cdispec.ContainerEdits) (needs Needs, err error) {
	targets := map[string]bool{}
	for _, edits := range all {
		for _, d := range edits.DeviceNodes {
			if targets[d.Path] {
				continue
			}
			targets[d.Path] = true
			device, err := deviceOf(cmp.Or(d.HostPath, d.Path), path.Clean(d.Path))
			if err != nil {
				return needs, err
			}
			needs.Devices = append(needs.Devices, device)
		}
		for _, m := range edits.Mounts {
			if target := path.Clean(m.ContainerPath); !path.IsAbs(target) || target == "/" {
				return needs, agentbox.Errorf(agentbox.Invalid, "the description of a GPU mounts %s on %s", m.HostPath, m.ContainerPath)
			}
			for _, f := range filesOf(m.HostPath, path.Clean(m.ContainerPath)) {
				if !targets[f.Target] {
					targets[f.Target] = true
					needs.Files = append(needs.Files, f)
				}
			}
		}
	}
	return needs, nil
}

func deviceOf(source, target string) (Device, error) {
	var st unix.Stat_t
	if err := unix.Stat(source, &st); err != nil {
		return Device{}, agentbox.Errorf(agentbox.Missing, "a GPU's device %s: %w", source, err).WithHint(hint)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || !strings.HasPrefix(target, "/dev/") {
		return Device{}, agentbox.Errorf(agentbox.Invalid, "the description of a GPU has %s, which is no character device below /dev", target)
	}
	return Device{source, target, int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))}, nil
}

// filesOf are a file or directory and its other names. It is none where the host does not have it,
// since a description outlives files of a driver, and for a socket of a service of the host's.
func filesOf(source, target string) []File {
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return nil
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	files := []File{{real, target, info.IsDir()}}
	for _, name := range loaderNames(real) {
		files = append(files, File{real, path.Join(path.Dir(target), name), false})
	}
	return files
}

// loaderNames are the names under which programs look for a library: its soname, as ldconfig would
// link it, and that without a version, as the vendor's hook would. The loader's own directories need
// no entry in its cache.
func loaderNames(file string) []string {
	if !strings.Contains(filepath.Base(file), ".so.") {
		return nil
	}
	f, err := elf.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 || path.Base(names[0]) != names[0] {
		return nil
	}
	bare, _, _ := strings.Cut(names[0], ".so.")
	return []string{names[0], bare + ".so"}
}
