package local

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/templates"
	"agentbox/vmm"
)

func (k kind) described(spec place.Spec) templates.Machine {
	return templates.Machine{Box: spec.Name, Isolation: spec.Kind, Image: spec.Image, Spec: k.machine(spec)}
}

// Prepare implements place.Preparer.
func (k kind) Prepare(ctx context.Context, spec place.Spec, progress agentbox.Progress) (string, error) {
	key, _, err := k.Templates.Open(ctx, k.described(spec), progress)
	return key, err
}

// Prepares implements place.Preparer.
func (k kind) Prepares() bool {
	_, ok := k.driver.(vmm.Templater)
	return ok
}

// CheckRestorable implements place.Preparer.
func (k kind) CheckRestorable(ctx context.Context, spec place.Spec) error {
	_, err := k.Templates.OpenKey(ctx, k.described(spec), spec.Key)
	return err
}

// CheckSavable implements place.Preparer.
func (k kind) CheckSavable(ctx context.Context, spec place.Spec, what string) error {
	return k.Templates.CheckSavable(ctx, k.described(spec), spec.Key, what)
}

// ReadsBlocks implements place.BlockReader.
func (k kind) ReadsBlocks() error {
	if reader, ok := k.driver.(vmm.BlockReader); ok {
		return reader.ReadsBlocks()
	}
	return errors.New("it has no way to")
}
