package egress

import (
	"context"
	"os"

	"agentbox/policy/registries"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// Packages makes tools in a box use this machine's package registries: variables, and files for
// apt. The policy decides whether they may reach them. suite is the release of an apt: image, ""
// for any other. Nothing here is fatal: without it, tools try the public registries.
func (ps *Policies) Packages(ctx context.Context, suite string) (env, files map[string]string) {
	environ := os.Environ()
	found, err := ps.Registries.Known(ctx, environ, nil)
	if err != nil {
		ps.Log.Warn("cannot tell a box where this machine takes packages from", "error", err)
		return map[string]string{}, nil
	}
	env, files = registries.Variables(found), map[string]string{}
	if suite == "" {
		return env, nil
	}
	// The image may be here although its sources are gone.
	if sources, err := image.AptSources(suite); err == nil {
		files[protocol.AptSources] = registries.RewriteLoopback(sources)
	}
	if proxies := registries.AptProxies(registries.HostMachine("", environ)); proxies != "" {
		files[protocol.AptSettings] = proxies
	}
	return env, files
}
