package isolation

import (
	"context"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/placetest"
)

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
func hostWith(micro, gvisor probed) Chooser {
	return Chooser{Kind: func(kind agentbox.Isolation) (place.Kind, error) {
		switch kind {
		case agentbox.MicroVM:
			return micro, nil
		case agentbox.GVisor:
			return gvisor, nil
		}
		return nil, agentbox.Errorf(agentbox.Invalid, "%q is not a kind", kind)
	}}
}

func TestAutoChoosesStrongestFastKind(t *testing.T) {
	for name, c := range map[string]struct {
		micro, gvisor probed
		want          string
	}{
		"hardware works":      {kvm, soft, "microvm/kvm: KVM works"},
		"only hardware works": {kvm, noUsers, "microvm/kvm: KVM works"},
		"no hardware":         {tcg, soft, "gvisor: no hardware virtualization: this host has no /dev/kvm"},
		"no QEMU":             {noQEMU, soft, "gvisor: no hardware virtualization: QEMU is not installed"},
	} {
		got, err := hostWith(c.micro, c.gvisor).Choose(t.Context(), Preference{kind: agentbox.Auto})
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	_, err := hostWith(noQEMU, noUsers).Choose(t.Context(), Preference{kind: agentbox.Auto})
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Missing || e.Hint != "allow them" ||
		!strings.Contains(e.Message, "QEMU is not installed") || !strings.Contains(e.Message, "user namespaces are forbidden") {
		t.Errorf("nothing works: %v", err)
	}
	// An emulated machine is offered, and not chosen.
	got, err := hostWith(tcg, noUsers).Choose(t.Context(), Preference{kind: agentbox.Auto})
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Missing || !strings.HasPrefix(e.Hint, "allow them; or --isolation microvm") {
		t.Errorf("only emulation works: %s, %v", got, err)
	}
}

// A machine by Lima is the command line's matter.
func TestLimaIsNoKind(t *testing.T) {
	_, err := hostWith(kvm, soft).Choose(t.Context(), Preference{agentbox.Lima, "agentbox.yaml"})
	if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Invalid || e.Hint == "" {
		t.Error(err)
	}
	// The command line there asks for auto, whatever the configuration says.
	if got := PreferenceOf(agentbox.Auto, &config.Config{Isolation: agentbox.Lima}, nil); got.by != "" {
		t.Errorf("%+v", got)
	}
}

// An interrupt during a probe must not pass for a verdict on the host.
func TestChooseCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := hostWith(tcg, soft).Choose(ctx, Preference{kind: agentbox.Auto}); err == nil {
		t.Errorf("chose %s", got)
	}
}

func TestPreferenceOf(t *testing.T) {
	const none, micro, gvisor, auto = agentbox.Isolation(""), agentbox.MicroVM, agentbox.GVisor, agentbox.Auto
	for _, c := range []struct {
		flag, file, machine agentbox.Isolation
		want                Preference
	}{
		{none, auto, none, Preference{auto, ""}},
		{none, auto, gvisor, Preference{gvisor, "AGENTBOX_ISOLATION"}},
		{none, micro, gvisor, Preference{micro, "agentbox.yaml"}},
		{gvisor, micro, micro, Preference{gvisor, "--isolation"}},
		{auto, micro, gvisor, Preference{auto, ""}},
		{none, auto, auto, Preference{auto, ""}},
	} {
		cfg := &config.Config{Path: "/repo/agentbox.yaml", Isolation: c.file}
		got := PreferenceOf(c.flag, cfg, []string{"HOME=/root", "AGENTBOX_ISOLATION=" + string(c.machine)})
		if got != c.want {
			t.Errorf("flag %q, file %q, machine %q: %+v, want %+v", c.flag, c.file, c.machine, got, c.want)
		}
	}
}

func TestChooseRequestedKind(t *testing.T) {
	got, err := hostWith(tcg, soft).Choose(t.Context(), Preference{agentbox.MicroVM, "--isolation"})
	if err != nil || got.Kind != agentbox.MicroVM || !strings.HasPrefix(got.Reason, "asked for by --isolation; this host has no /dev/kvm, so the machine is emulated") {
		t.Errorf("%s, %v", got, err)
	}
	_, err = hostWith(kvm, noUsers).Choose(t.Context(), Preference{agentbox.GVisor, "agentbox.yaml"})
	if e := agentbox.AsError(err); e == nil || e.Message != "gvisor is asked for by agentbox.yaml: user namespaces are forbidden" || e.Hint != "allow them" {
		t.Errorf("%v", err)
	}
	_, err = hostWith(kvm, soft).Choose(t.Context(), Preference{"jail", "AGENTBOX_ISOLATION"})
	if agentbox.CodeOf(err) != agentbox.Invalid || !strings.Contains(err.Error(), "AGENTBOX_ISOLATION") {
		t.Errorf("%v", err)
	}
}

func TestKeep(t *testing.T) {
	box := agentbox.Box{Name: "mine", Isolation: agentbox.GVisor, Reason: "as it was"}
	if got, err := hostWith(kvm, soft).ChooseExisting(t.Context(), box); err != nil || got.Kind != agentbox.GVisor || got.Reason != "as it was" {
		t.Errorf("%s, %v", got, err)
	}
	emulated := agentbox.Box{Isolation: agentbox.MicroVM, Accel: "tcg", Reason: "as it was"}
	if got, err := hostWith(kvm, soft).ChooseExisting(t.Context(), emulated); err != nil || got.String() != "microvm/kvm: KVM works" {
		t.Errorf("after KVM came to the host: %s, %v", got, err)
	}
	for flag, want := range map[agentbox.Isolation]agentbox.Code{"": "", agentbox.Auto: "", agentbox.GVisor: "", agentbox.MicroVM: agentbox.Conflict, "jail": agentbox.Invalid} {
		if err := Check(box, flag); agentbox.CodeOf(err) != want {
			t.Errorf("up --isolation %q: %v", flag, err)
		}
	}
}
