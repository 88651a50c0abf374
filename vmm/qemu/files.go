package qemu

import "agentbox/vmm/confine"

// systemFiles are the host's programs and libraries, and the configuration of their loader.
var systemFiles = []string{"/usr", "/bin", "/lib", "/lib64", "/opt", "/nix/store", "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system"}

// files are all that QEMU may open, besides the descriptors that it inherits. program is the
// absolute path of QEMU. Keep it in step with argv: with a path that is missing here QEMU fails to
// start.
func (c command) files(program string) confine.Files {
	f := confine.Files{Read: append([]string{program}, systemFiles...)}
	if !c.Incoming {
		f.Read = append(f.Read, c.Kernel, c.Initrd)
	}
	if c.Accel == accelKVM {
		f.Write = append(f.Write, kvmDevice)
	}
	for _, d := range c.Disks {
		if d.Served {
			continue
		}
		if d.ReadOnly {
			f.Read = append(f.Read, d.Path)
		} else {
			f.Write = append(f.Write, d.Path)
		}
	}
	return f
}
