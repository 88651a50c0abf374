package qemu

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/vmm"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestArgvGolden(t *testing.T) {
	m := &machine{
		spec: vmm.Spec{
			Name: "0123456789ab", Dir: "/box", Image: "/images/a,b.erofs", Kernel: "/kernels/k",
			CPUs: 2, Memory: 1 << 30, Disk: 64 << 30,
		},
		runtime: "/box/runtime.img", workspace: "/spaces/w.img",
	}
	boot := describe(m, accelTCG)
	boot.Share = true
	boot.Args += " tsc_early_khz=2596114"
	restore := describe(m, accelTCG)
	restore.Incoming = true
	kvm := describe(m, accelKVM)
	kvm.Incoming = true
	for name, c := range map[string]command{"boot-tcg": boot, "restore-tcg": restore, "restore-kvm": kvm, "probe-kvm": probeCommand("/kernels/k")} {
		got := strings.Join(c.argv(), "\n") + "\n"
		golden := filepath.Join("testdata", name+".argv")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (go test -update writes it anew):\n%s", name, golden, got)
		}
	}
}

func TestMke2fsArgv(t *testing.T) {
	got := strings.Join(filesystem{path: "/w.img", tree: "/tree", journal: 64, owner: vmm.GuestUID}.argv(true), " ")
	const want = "-q -F -t ext4 -m 0 -O ^resize_inode -E root_owner=1000:1000,assume_storage_prezeroed=1 -J size=64 -d /tree /w.img"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
