package policy

import "cmp"

// Sources is everything that a box's policy is made of. Zero files say nothing.
type Sources struct {
	// Organisation are bounds: what any of them does not allow is denied (Compose).
	Organisation []File
	User         []File
	UserPreset   string // the user's own choice for this repository; "" leaves it to the repository
	Repository   File   // the approved copy
	Machine      Layer  // what balanced adds: see policy/registries
	Secrets      []Secret
}

// DefaultPreset applies if neither the repository nor the user names one.
const DefaultPreset = Balanced

// Compose makes the policy of one box. An organisation's file allows nothing by itself: what it
// lists is the most that others may allow, and its preset the widest that they may choose.
//
// Layers are in the order in which verdicts name them: the organisation's, the user's, the
// repository's, the preset's. The order decides nothing else, as any rule that denies wins and any
// that allows suffices. The user's choice of a preset overrides the repository's, wider or not.
func Compose(s Sources) Spec {
	preset := cmp.Or(s.UserPreset, s.Repository.Preset, DefaultPreset)
	spec := Spec{Secrets: s.Secrets}
	for _, f := range s.Organisation {
		if f.Preset != "" && Breadth(f.Preset) < Breadth(preset) {
			preset = f.Preset
		}
		spec.Layers = append(spec.Layers, bound(f))
	}
	spec.Preset = preset
	for _, f := range s.User {
		spec.Layers = append(spec.Layers, layer(User, f))
	}
	spec.Layers = append(spec.Layers, layer(Repository, s.Repository))
	spec.Layers = append(spec.Layers, presetLayers(preset, s.Machine)...)
	return spec
}

func layer(source Source, f File) Layer {
	return Layer{Source: source, Allow: f.Allow, Deny: f.Deny, Private: f.Private}
}

// bound is the layer of an organisation. If it lists nothing to allow, it bounds no names; if it
// lists private addresses, these are the most that may be granted, and everything else is up to the
// others.
func bound(f File) Layer {
	l := layer(Organisation, f)
	l.Bound = f.HasAllow || f.HasPrivate
	if l.Bound && !f.HasAllow {
		l.Allow = []Rule{everything}
	}
	return l
}

// everything covers every flow.
var everything = Rule{Host: "*"}

// presetLayers are the rules of a preset. Strict has none; offline denies, so that no rule of
// another layer lifts it.
func presetLayers(preset string, machine Layer) []Layer {
	switch preset {
	case Offline:
		return []Layer{{Source: Preset, Name: Offline, Deny: []Rule{everything}}}
	case Balanced:
		machine.Source, machine.Name = Preset, Balanced
		return []Layer{machine}
	case Open:
		return []Layer{{Source: Preset, Name: Open, Allow: []Rule{everything}}}
	}
	return nil
}
