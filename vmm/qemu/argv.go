package qemu

import (
	"fmt"
	"strconv"
	"strings"

	"agentbox/vmm/guest/protocol"
)

// The descriptors that QEMU inherits, in the order in which process.go passes them.
const (
	fdQMP     = 3 + iota // one end of a socket pair: control
	fdAgent              // one end of a socket pair: the stream to the guest agent
	fdConsole            // one end of a socket pair: the serial console
	fdNetwork            // one end of a socket pair: the link
	fdImage              // one end of a socket pair: NBD, only where the image is not all here
	fdMemory             // the file behind the guest's memory
	fdState              // restore only: the device state to load
)

// kernelArgs is the guest's command line. The agent is /init of the initrd, so there is no root=. A
// panic resets, which ends QEMU (-no-reboot) with a reason that differs from a shutdown's. The
// kernel's watchdog would take a paused machine for a hung one.
//
// tsc=reliable: emulated CPUs fail the check that their counters agree, since checking is slow, and
// the guest would fall back to a clock of 4 ms steps. mitigations=off: an emulated CPU does not
// speculate. norandmaps: QEMU translates code by its address, so a library at another address in
// each process is translated for each. Security modules without a policy and pressure statistics
// cost time at every system call and context switch.
//
// GODEBUG is for the agent and reaches nothing that it starts: preemption signals and checks of the
// number of CPUs, which never changes, are code that every clone would have to translate.
//
// All of it is part of the fingerprint. Measurements: docs/internals/measurements.md, "Machines".
func kernelArgs(accel string) string {
	args := "console=ttyS0 quiet loglevel=3 panic=-1 reboot=t i8042.noaux i8042.nokbd random.trust_cpu=on cryptomgr.notests" +
		" nowatchdog GODEBUG=asyncpreemptoff=1,updatemaxprocs=0"
	if accel == accelTCG {
		args += " tsc=reliable mitigations=off norandmaps lsm=landlock,lockdown,yama psi=0"
	}
	return args
}

// disk is one virtio-blk slot. The guest finds it by its serial number, which is its name.
type disk struct {
	Name     string
	Path     string
	ReadOnly bool
	// Read over fdImage, by NBD; Path is not opened.
	Served   bool
	Volatile bool // a host crash may lose what the guest flushed, since it loses the layer anyway
}

// command is everything that the command line of a machine is made from. A template and its clones
// differ in paths, Name, Share and Incoming only, and a clone gets no kernel. Thus a template's
// device state can be loaded into a clone: QEMU expects the same devices in the same order.
type command struct {
	Name     string
	Accel    string // kvm or tcg
	CPUs     int
	Memory   int64
	Kernel   string
	Initrd   string
	Args     string
	Disks    []disk
	Network  bool // a card with a link to us
	Share    bool // changes of memory reach the memory file (a template being made)
	Incoming bool // wait for device state instead of booting
}

// argv is QEMU's command line without the program: a pure function, tested without QEMU by golden
// files in testdata. -nodefaults and -no-user-config keep the host's QEMU configuration out.
// -sandbox is QEMU's own filter on top of ours. A guest that knows its counter's rate (tsc.go)
// needs no PIT and PIC. Memory pages are neither merged nor dumped.
func (c command) argv() []string {
	a := []string{
		"-name", "guest=" + escape(c.Name) + ",debug-threads=on",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-machine", "microvm,acpi=on,rtc=on,pit=off,pic=off,x-option-roms=off,auto-kernel-cmdline=off,mem-merge=off,dump-guest-core=off," +
			"suppress-vmdesc=on,memory-backend=ram",
		// With ACPI the default of a microvm has been SeaBIOS since QEMU 10, which never starts our
		// kernel without option ROMs.
		"-bios", "qboot.rom",
		"-accel", accelerator(c.Accel),
		"-cpu", cpuModel(c.Accel),
		"-smp", strconv.Itoa(c.CPUs),
		"-m", fmt.Sprintf("size=%dk", c.Memory>>10),
		"-object", fmt.Sprintf("memory-backend-file,id=ram,size=%d,mem-path=/proc/self/fd/%d,share=%s", c.Memory, fdMemory, onOff(c.Share)),
		// Device state is saved by xen-save-devices-state, which writes no configuration section.
		"-global", "migration.send-configuration=off",
		"-chardev", fmt.Sprintf("socket,id=qmp,fd=%d", fdQMP), "-mon", "chardev=qmp,mode=control",
		"-chardev", fmt.Sprintf("socket,id=console,fd=%d", fdConsole), "-serial", "chardev:console",
		"-object", "rng-builtin,id=rng", "-device", "virtio-rng-device,rng=rng",
		"-device", "virtio-serial-device,max_ports=2",
		"-chardev", fmt.Sprintf("socket,id=agent,fd=%d", fdAgent), "-device", "virtserialport,chardev=agent,name=" + protocol.PortName,
	}
	for _, d := range c.Disks {
		a = append(a, d.argv()...)
	}
	if c.Network {
		a = append(a, networkArgv()...)
	}
	if c.Incoming {
		// A clone's kernel is in its memory. QEMU would keep a copy of the file, 14 MB for every
		// clone.
		return append(a, "-incoming", "defer")
	}
	return append(a, "-kernel", c.Kernel, "-initrd", c.Initrd, "-append", c.Args)
}

// argv attaches the file as it is: no format is probed, and no lock prevents filling a slot that
// the guest has not mounted yet. The layer above keeps a workspace to one machine at a time.
func (d disk) argv() []string {
	if d.Served {
		// No reconnection: without our parent, which has the other end, there is no machine.
		node := fmt.Sprintf("driver=nbd,node-name=%s,server.type=fd,server.str=%d,read-only=on", d.Name, fdImage)
		return []string{"-blockdev", node, "-device", "virtio-blk-device,drive=" + d.Name + ",serial=" + d.Name}
	}
	node := "driver=file,node-name=" + d.Name + ",filename=" + escape(d.Path) + ",locking=off,read-only=" + onOff(d.ReadOnly)
	if !d.ReadOnly {
		node += ",discard=unmap"
	}
	if d.Volatile {
		node += ",cache.no-flush=on"
	}
	return []string{"-blockdev", node, "-device", "virtio-blk-device,drive=" + d.Name + ",serial=" + d.Name}
}

// networkArgv is one card with a link to us: QEMU itself has no network. The guest need not
// announce itself after a restore.
func networkArgv() []string {
	return []string{
		"-netdev", fmt.Sprintf("socket,id=net,fd=%d", fdNetwork),
		"-device", fmt.Sprintf("virtio-net-device,netdev=net,mac=%s,host_mtu=%d,guest_announce=off", protocol.GuestMAC, protocol.NetworkMTU),
	}
}

// accelerator bounds the cache of translated code to 256 MiB. It would grow to 1 GiB whatever the
// size of the machine; one of 512 MiB was seen to fill that.
func accelerator(accel string) string {
	if accel == accelTCG {
		return accel + ",tb-size=256"
	}
	return accel
}

// cpuModel leaves out of an emulated CPU what makes memory accesses slower: a fifth level of page
// tables, which no machine of ours is large enough for, and SMAP, for which QEMU keeps a second set
// of translations and splits code at each copy of a system call.
func cpuModel(accel string) string {
	if accel == accelKVM {
		return "host"
	}
	return "max,-la57,-smap"
}

// escape doubles commas, which separate options.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
