package entries

import (
	"context"
	"fmt"

	"agentbox/agentbox"
)

// Check reports problems of the store that need a person: damaged chunks that could not be
// repaired, or a key with two results.
func (es Entries) Check(ctx context.Context) (string, error) {
	s, err := es.Store(ctx)
	if err != nil {
		return "", err
	}
	usage, err := s.Usage(ctx)
	if err != nil {
		return "", err
	}
	if damaged := s.Damaged(); len(damaged) > 0 {
		return "", agentbox.Errorf(agentbox.Corrupt, "damaged chunks in quarantine: %d, the first %s in %s at %d: %s",
			len(damaged), damaged[0].Digest.Short(), damaged[0].File, damaged[0].Offset, damaged[0].Why).
			WithHint("agentbox cache verify --from REMOTE gets them again; look at the disk (dmesg, smartctl)")
	}
	alarms, err := s.Alarms()
	if err != nil {
		return "", err
	}
	if len(alarms) > 0 {
		a := alarms[0]
		return "", agentbox.Errorf(agentbox.Conflict, "keys with two results: %d, the first %s: kept %s of producer %.8x, not %s of producer %.8x",
			len(alarms), agentbox.ShortName(a.Kept.Namespace+"/"+a.Kept.Key), a.Kept.Manifest.Short(), a.Kept.Producer, a.Lost.Manifest.Short(), a.Lost.Producer).
			WithHint("agentbox cache show --why %s lists what the key was computed from, which lacks an input; agentbox cache rm %s has it made anew",
				a.Kept.Manifest.Short(), a.Kept.Manifest.Short())
	}
	return fmt.Sprintf("%d MiB in %s, nothing damaged", usage.Bytes>>20, agentbox.Plural(usage.Manifests, "blob")), nil
}
