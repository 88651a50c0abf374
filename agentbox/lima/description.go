package lima

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"agentbox/agentbox"
)

// Description is what a machine is made from. What is zero gets Lima's own default: 4 CPUs, half of
// the host's memory up to 4 GiB, a disk of 100 GiB of which only what is used takes room.
type Description struct {
	OS, Arch     string // of the host, as Go names them
	CPUs         int
	Memory, Disk string // such as 4GiB
	// Image is a disk with Debian and cloud-init, a file or a URL; "" is Debian's own, by its digest.
	// Kernel and Initrd boot it directly, which a disk without a boot loader needs.
	Image, Kernel, Initrd string
}

// debian are Debian's images for clouds, as Lima 2.2.0's own template pins them. Debian removes one
// after some months; then a build with newer ones, or --image, is needed.
var debian = map[string]file{
	"x86_64": {
		Location: "https://cloud.debian.org/images/cloud/bookworm/20260712-2537/debian-12-genericcloud-amd64-20260712-2537.qcow2",
		Digest:   "sha512:6c2607f1846ee86040830c87d0b723f0967da3e884ea4673d9db4aa8eee13a4b7c663524bfa42082c16fc6919f3aa1bf425c004d07ff06c53a319ad0c42647bb",
	},
	"aarch64": {
		Location: "https://cloud.debian.org/images/cloud/bookworm/20260712-2537/debian-12-genericcloud-arm64-20260712-2537.qcow2",
		Digest:   "sha512:52eb678130e85a9bf9f3cf4f7181e060fa60a5db45373717474c5ff9305645c5e6cab8b05ca042bcfa7921d2ca29cf9fd2e815f75abe2d168557ad7207af127b",
	},
}

// file is one that Lima fetches or copies.
type file struct {
	Location string `yaml:"location"`
	Arch     string `yaml:"arch,omitempty"`
	Digest   string `yaml:"digest,omitempty"`
	Cmdline  string `yaml:"cmdline,omitempty"`
}

// limaYAML has the fields of lima.yaml that we set.
type limaYAML struct {
	VMType       string                    `yaml:"vmType"`
	VMOpts       map[string]map[string]any `yaml:"vmOpts,omitempty"`
	Arch         string                    `yaml:"arch"`
	CPUs         int                       `yaml:"cpus,omitempty"`
	Memory       string                    `yaml:"memory,omitempty"`
	Disk         string                    `yaml:"disk,omitempty"`
	Images       []limaImage               `yaml:"images"`
	Firmware     map[string]bool           `yaml:"firmware,omitempty"`
	Plain        bool                      `yaml:"plain"`
	User         map[string]any            `yaml:"user"`
	SSH          map[string]bool           `yaml:"ssh"`
	HostResolver map[string]bool           `yaml:"hostResolver,omitempty"`
}

type limaImage struct {
	file   `yaml:",inline"`
	Kernel *file `yaml:"kernel,omitempty"`
	Initrd *file `yaml:"initrd,omitempty"`
}

var limaArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// YAML is the description as Lima reads it. A machine is plain: it has no mounts of the host, no
// agent of Lima's, no keys of the user's and no ports that Lima forwards by itself, because what
// boxes may reach is decided by policy, and a machine that sees the home of its user undoes that.
func (d Description) YAML() ([]byte, error) {
	arch := limaArch[d.Arch]
	if arch == "" || d.OS != "linux" && d.OS != "darwin" {
		return nil, agentbox.Errorf(agentbox.Invalid, "Lima has no machines for %s on %s", d.Arch, d.OS).WithHint("use a host over ssh: agentbox help host")
	}
	out := limaYAML{
		VMType: "vz", Arch: arch, CPUs: d.CPUs, Memory: d.Memory, Disk: d.Disk, Plain: true,
		// Not the name and ID of the user here, which Lima refuses for root and cannot have for some.
		User: map[string]any{"name": "agentbox", "uid": 1000, "home": "/home/agentbox"},
		SSH:  map[string]bool{"loadDotSSHPubKeys": false},
	}
	if d.OS == "linux" {
		// max is all that KVM has, and what an emulated processor needs for Debian's kernel.
		out.VMType, out.VMOpts = "qemu", map[string]map[string]any{"qemu": {"cpuType": map[string]string{arch: "max"}}}
		// QEMU's own network asks the host's resolvers; Lima's would need its agent in the guest.
		out.HostResolver = map[string]bool{"enabled": false}
	}
	image := limaImage{file: debian[arch]}
	if d.Image != "" {
		image.file = file{Location: d.Image}
	}
	image.Arch = arch
	if d.Kernel != "" {
		image.Kernel = &file{Location: d.Kernel, Arch: arch, Cmdline: "root=/dev/vda rw console=ttyS0"}
		image.Initrd = &file{Location: d.Initrd, Arch: arch}
		if arch == "x86_64" {
			out.Firmware = map[string]bool{"legacyBIOS": true}
		}
	}
	out.Images = []limaImage{image}
	var b bytes.Buffer
	b.WriteString("# Written by agentbox; changes are lost.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(out)
	return b.Bytes(), err
}
