package statedir

import (
	"errors"
	"fmt"
	"os"

	"agentbox/agentbox"
	"agentbox/vmm"
)

// Basis is the part of every manifest that describes the machine. Drivers embed it in their own
// manifests.
type Basis struct {
	// The driver's own number, which changes with the meaning of any file.
	Format int `json:"format"`
	// As vmm.Driver.Fingerprint returned it when the machine was started.
	Fingerprint string `json:"fingerprint"`
	// The spec's sizes, the only ones that the state fits.
	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memory"` // bytes
	Disk   int64 `json:"disk"`   // bytes
}

// BasisOf describes a machine with this spec.
func BasisOf(format int, fingerprint string, spec vmm.Spec) Basis {
	return Basis{Format: format, Fingerprint: fingerprint, CPUs: spec.CPUs, Memory: spec.Memory, Disk: spec.Disk}
}

// CheckFormat refuses a manifest of another format. There is no reader of older ones: templates are
// made again, and a saved machine needs the very driver that saved it anyway.
func (b Basis) CheckFormat(format int) error {
	if b.Format != format {
		return fmt.Errorf("it has format %d, this agentbox writes and reads %d", b.Format, format)
	}
	return nil
}

// Fits refuses a spec that the state cannot be loaded into: one of another size or fingerprint
// (code Conflict; rests names what the fingerprint covers), or, if the state has disks (disks), one
// with a workspace although it was saved without (saved is false), or the reverse (code Invalid).
func (b Basis) Fits(spec vmm.Spec, fingerprint, rests string, disks, saved bool) error {
	if spec.CPUs != b.CPUs || spec.Memory != b.Memory || spec.Disk != b.Disk {
		return agentbox.Errorf(agentbox.Conflict, "%s has %d CPUs, %d bytes of memory and %d of disk, but what it is restored from has %d, %d and %d",
			spec.Name, spec.CPUs, spec.Memory, spec.Disk, b.CPUs, b.Memory, b.Disk)
	}
	if fingerprint != b.Fingerprint {
		return agentbox.Errorf(agentbox.Conflict, "what %s is restored from does not fit this machine any more (%s or settings have changed)", spec.Name, rests).
			WithHint("a template is made again; a saved machine is lost, and a reset keeps its box's workspace")
	}
	if disks && saved != (spec.Workspace != "") {
		return agentbox.Errorf(agentbox.Invalid, "%s: a state is restored with a workspace exactly if it was saved with one", spec.Name)
	}
	return nil
}

// Unwrap returns a driver's own machine or template from an interface, and an error for another
// driver's or nil.
func Unwrap[T any](v any) (T, error) {
	own, ok := v.(T)
	if !ok {
		return own, fmt.Errorf("a %T is not one of this driver's", v)
	}
	return own, nil
}

// Close closes files, skipping those that are nil, and joins the errors.
func Close(files ...*os.File) error {
	var errs []error
	for _, f := range files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
