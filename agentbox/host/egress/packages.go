package egress

import (
	"context"
	"os"

	"agentbox/policy/registries"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// Packages is what makes tools in a box take packages from where they do on this machine:
// variables, and files for apt. Whether they may is for the policy. suite is the release of an apt:
// image, "" for any other. Nothing is fatal here: a box whose tools are not told tries the public
// registries, and the policy decides.
func (e *Policies) Packages(ctx context.Context, suite string) (env, files map[string]string) {
	environ := os.Environ()
	found, err := e.Registries.Known(ctx, environ, nil)
	if err != nil {
		e.Log.Warn("cannot tell a box where this machine takes packages from", "error", err)
		return map[string]string{}, nil
	}
	env, files = registries.Variables(found), map[string]string{}
	if suite == "" {
		return env, nil
	}
	// An image can be here when its sources are gone.
	if sources, err := image.AptSources(suite); err == nil {
		files[protocol.AptSources] = registries.InBox(sources)
	}
	if proxies := registries.AptProxies(registries.Host("", environ)); proxies != "" {
		files[protocol.AptSettings] = proxies
	}
	return env, files
}
