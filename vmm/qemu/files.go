package qemu

import "agentbox/vmm/confine"

// systemFiles are the host's programs and libraries, and what these read to be loaded: nobody's
// own.
var systemFiles = []string{"/usr", "/bin", "/lib", "/lib64", "/opt", "/nix/store", "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system"}

// files are all that QEMU may open, besides what it inherits: a guest that has taken it over
// reaches nothing else. program is the absolute path of QEMU. The machine's memory and sockets are
// inherited, and a descriptor needs no rule. Keep it in step with argv: a path that is named there
// and not here makes QEMU fail at its start.
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
