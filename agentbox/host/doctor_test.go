package host

import (
	"testing"

	"agentbox/agentbox/api"
	"agentbox/vmm"
)

// An ordinary user's PATH on Debian has no /sbin, where mke2fs is, and boxes are made with it all
// the same.
func TestDoctorLooksWhereProgramsAreRunFrom(t *testing.T) {
	if _, err := vmm.FindProgram("mke2fs"); err != nil {
		t.Skip(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	report, err := manage(t, newHome(t)).Doctor(t.Context(), api.DoctorRequest{}, nil)
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
