package host

import (
	"context"
	"maps"
	"os"
	"strings"

	"agentbox/agentbox/config"
	"agentbox/policy/registries"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// suiteOf is the release of an apt: image, "" for any other.
func suiteOf(cfg *config.Config) string {
	suite, _ := strings.CutPrefix(cfg.Image, "apt:")
	if suite == cfg.Image {
		return ""
	}
	return suite
}

// packageConfig is what makes tools in a box take packages from where they do on this machine: variables, and files for
// apt. Whether they may is for the policy.
func (m *Manager) packageConfig(ctx context.Context, rec record) (env, files map[string]string) {
	environ := os.Environ()
	found, err := m.policies.registries.Known(ctx, environ, nil)
	if err != nil {
		m.log.Warn("cannot tell a box where this machine takes packages from", "error", err)
		return map[string]string{}, nil
	}
	env, files = registries.Variables(found), map[string]string{}
	if rec.Suite == "" {
		return env, nil
	}
	if sources, err := image.AptSources(rec.Suite); err == nil { // an image can be here when its sources are gone
		files[protocol.AptSources] = registries.InBox(sources)
	}
	if proxies := registries.AptProxies(registries.Host("", environ)); proxies != "" {
		files[protocol.AptSettings] = proxies
	}
	return env, files
}

// environment is what the commands of a box have: what its packages need, under its configuration, under its secrets.
func (m *Manager) environment(rec record, packages map[string]string) map[string]string {
	env := maps.Clone(packages)
	maps.Copy(env, rec.Attach.Env)
	maps.Copy(env, m.placeholders(rec))
	return env
}
