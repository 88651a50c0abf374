package flags

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"agentbox/agentbox/config"
)

// Settings are digests of the values that a configuration, with flags applied, has for each key
// that a reset applies. They tell later which keys have changed.
type Settings map[string]string

// SettingsOf computes the settings of a configuration: 64 bits of a digest for each key, in hex.
// Digests keep environments private, and only equality matters.
func SettingsOf(cfg *config.Config) Settings {
	s := Settings{}
	values := map[string]any{
		"image": cfg.Image, "packages": cfg.Packages, "toolchain": constraintsOf(cfg), "include": cfg.Include, "kernel": cfg.Kernel,
		"cpus": cfg.CPUs, "memory": cfg.Memory, "user": cfg.User, "start": cfg.Start, "services": cfg.Services,
		"ports": cfg.Ports, "env": environmentOf(cfg),
	}
	if cfg.GPUs != 0 {
		values["gpus"] = cfg.GPUs
	}
	if cfg.Build != nil { // boxes without one keep the settings that they were made with
		values["build"] = cfg.Build
	}
	if len(cfg.Compose) > 0 {
		values["services of the Compose file"] = cfg.Compose
	}
	for key, value := range values {
		b, err := json.Marshal(value)
		if err != nil {
			b = fmt.Append(nil, value) // no such value is known
		}
		sum := sha256.Sum256(b)
		s[key] = hex.EncodeToString(sum[:8])
	}
	return s
}

// environmentOf is the environment as it is written. Boxes without derived variables keep the digest
// that they were made with.
func environmentOf(cfg *config.Config) any {
	if len(cfg.Derived) == 0 {
		return cfg.Env
	}
	return []map[string]string{cfg.Env, cfg.Derived}
}

// constraintsOf lists the tools and versions that are asked for, whichever files ask for them.
func constraintsOf(cfg *config.Config) []string {
	var out []string
	for _, n := range cfg.Toolchain {
		out = append(out, string(n.Tool)+" "+n.Constraint)
	}
	return out
}

// Changed names the keys whose values differ.
func (s Settings) Changed(now Settings) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if now[key] != s[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
