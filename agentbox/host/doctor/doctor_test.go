package doctor

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/isolation"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/placetest"
	"agentbox/vmm"
)

// An ordinary user's PATH on Debian has no /sbin, where mke2fs is, and boxes are made with it all
// the same.
func TestCheckPrograms(t *testing.T) {
	if _, err := vmm.FindProgram("mke2fs"); err != nil {
		t.Skip(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	report, err := Doctor{
		Dir: t.TempDir(), Chooser: hostWith(kvm, soft),
		Kernel:    func(context.Context, string, agentbox.Progress) (string, error) { return "kernel", nil },
		Resources: func() (api.Resources, error) { return api.Resources{}, nil },
		Boxes:     func() (boxes, pool int, unread error) { return 0, 0, nil },
	}.Run(t.Context(), api.DoctorRequest{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		if c.Name == "mke2fs" {
			if !c.OK {
				t.Errorf("%+v", c)
			}
			return
		}
	}
	t.Errorf("doctor did not look for mke2fs: %+v", report.Checks)
}

// probed is a kind that has found out something about its host.
type probed = *placetest.Fake

var (
	kvm     = &placetest.Fake{Facts: place.Facts{Version: "9", Accel: "kvm", Hardware: true, Reason: "KVM works"}}
	tcg     = &placetest.Fake{Facts: place.Facts{Version: "9", Accel: "tcg", Reason: "this host has no /dev/kvm"}}
	noQEMU  = &placetest.Fake{Broken: agentbox.Errorf(agentbox.Missing, "QEMU is not installed").WithHint("install QEMU")}
	soft    = &placetest.Fake{Facts: place.Facts{Version: "1", Reason: "Systrap"}}
	noUsers = &placetest.Fake{Broken: agentbox.Errorf(agentbox.Missing, "user namespaces are forbidden").WithHint("allow them")}
)

// hostWith is the Chooser of a host whose kinds have found out this.
func hostWith(micro, gvisor probed) isolation.Chooser {
	return isolation.Chooser{Kind: func(kind agentbox.Isolation) (place.Kind, error) {
		switch kind {
		case agentbox.MicroVM:
			return micro, nil
		case agentbox.GVisor:
			return gvisor, nil
		}
		return nil, agentbox.Errorf(agentbox.Invalid, "%q is not a kind", kind)
	}}
}

func TestLimaIsNotNeeded(t *testing.T) {
	here := func(missing ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			if slices.Contains(missing, name) {
				return "", exec.ErrNotFound
			}
			return "/usr/bin/" + name, nil
		}
	}
	if got := checkLima(here()); !strings.Contains(got, "agentbox lima start") {
		t.Errorf("with all: %q", got)
	}
	if got := checkLima(here("qemu-img", "ssh-keygen")); !strings.Contains(got, "not needed: qemu-img, ssh-keygen missing") {
		t.Errorf("without two: %q", got)
	}
}

func TestKindFailsOnlyIfNoneWorks(t *testing.T) {
	for _, c := range []struct {
		micro, gvisor probed
		want          string
	}{
		{noQEMU, soft, "isolation ok, microvm ok, gvisor ok, container ok, ssh ok"},
		{kvm, noUsers, "isolation ok, microvm ok, gvisor ok, container ok, ssh ok"},
		{noQEMU, noUsers, "isolation FAIL, microvm FAIL, gvisor FAIL, container ok, ssh ok"},
	} {
		var d diagnosis
		Doctor{Chooser: hostWith(c.micro, c.gvisor)}.checkKinds(t.Context(), api.DoctorRequest{}, &d)
		var got []string
		for _, check := range d.checks {
			got = append(got, check.Name+" "+map[bool]string{true: "ok", false: "FAIL"}[check.OK])
		}
		if strings.Join(got, ", ") != c.want || d.emulated {
			t.Errorf("%v, want %s; emulated: %v", d.checks, c.want, d.emulated)
		}
	}
	var d diagnosis
	Doctor{Chooser: hostWith(tcg, soft)}.checkKinds(t.Context(), api.DoctorRequest{Isolation: agentbox.MicroVM}, &d)
	if want := "a new box is microvm/tcg: asked for by AGENTBOX_ISOLATION; "; !strings.HasPrefix(d.checks[0].Detail, want) {
		t.Errorf("%q, want %q first", d.checks[0].Detail, want)
	}
	if want := []agentbox.Isolation{agentbox.MicroVM, agentbox.GVisor}; !slices.Equal(d.working, want) {
		t.Errorf("%v work for who asks for a microVM, want %v", d.working, want)
	}
	d = diagnosis{}
	Doctor{Chooser: hostWith(tcg, soft)}.checkKinds(t.Context(), api.DoctorRequest{}, &d)
	if want := []agentbox.Isolation{agentbox.GVisor}; !slices.Equal(d.working, want) || !strings.Contains(d.checks[1].Detail, "emulated") || !d.emulated {
		t.Errorf("%v work for who asks for nothing, want %v: %v", d.working, want, d.checks)
	}
}
