package statedir

import (
	"errors"
	"fmt"
	"os"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// Basis is what every manifest says of the machine that was saved. It is a part of the driver's
// own.
type Basis struct {
	Format      int             `json:"format"`
	Template    agentbox.Digest `json:"template,omitzero"` // saved states: the manifest of the template they rest on
	Fingerprint string          `json:"fingerprint"`
	CPUs        int             `json:"cpus"`
	Memory      int64           `json:"memory"` // bytes
	Disk        int64           `json:"disk"`   // bytes
}

// BasisOf is that of a machine.
func BasisOf(format int, fingerprint string, spec vmm.Spec) Basis {
	return Basis{Format: format, Fingerprint: fingerprint, CPUs: spec.CPUs, Memory: spec.Memory, Disk: spec.Disk}
}

// CheckFormat says what is wrong when a manifest was written in another format.
func (b Basis) CheckFormat(format int) error {
	if b.Format != format {
		return fmt.Errorf("it has format %d, this agentbox writes and reads %d", b.Format, format)
	}
	return nil
}

// Fits refuses a spec that the state cannot be loaded into: one of another size, or, where the
// state has disks, one with a workspace where saved says that there was none, and the reverse. The
// errors have code Conflict and Invalid.
func (b Basis) Fits(spec vmm.Spec, disks, saved bool) error {
	if spec.CPUs != b.CPUs || spec.Memory != b.Memory || spec.Disk != b.Disk {
		return agentbox.Errorf(agentbox.Conflict, "%s has %d CPUs, %d bytes of memory and %d of disk, but what it is restored from has %d, %d and %d",
			spec.Name, spec.CPUs, spec.Memory, spec.Disk, b.CPUs, b.Memory, b.Disk)
	}
	if disks && saved != (spec.Workspace != "") {
		return agentbox.Errorf(agentbox.Invalid, "%s: a state is restored with a workspace exactly if it was saved with one", spec.Name)
	}
	return nil
}

// CheckOrigin refuses the state of dir when it was saved from a machine of another template than
// the one of this digest and basis. The error has code Conflict.
func (b Basis) CheckOrigin(dir string, template agentbox.Digest, of Basis) error {
	if b.Template != template || b.Fingerprint != of.Fingerprint {
		return agentbox.Errorf(agentbox.Conflict, "%s was saved from a machine of another template", dir)
	}
	return nil
}

// Own gives a driver its own machine or template, and an error for another driver's.
func Own[T any](v any) (T, error) {
	own, ok := v.(T)
	if !ok {
		return own, fmt.Errorf("a %T is not one of this driver's", v)
	}
	return own, nil
}

// Close closes files, those that are not nil.
func Close(files ...*os.File) error {
	var errs []error
	for _, f := range files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
