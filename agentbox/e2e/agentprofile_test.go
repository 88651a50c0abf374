package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"

	"agentbox/agentbox/task/agents"
	"agentbox/policy"
)

// addresses is how each built-in agent is told another address of its API: MODEL stands for it.
// Those of docs/agents.md.
var addresses = map[string]agents.Profile{
	"claude":   {Env: map[string]string{"ANTHROPIC_BASE_URL": "http://MODEL"}},
	"cline":    {}, // ~/.cline/data/settings/providers.json
	"codex":    {Flags: []string{"-c", `openai_base_url="http://MODEL/v1"`}},
	"copilot":  {Env: map[string]string{"COPILOT_PROVIDER_BASE_URL": "http://MODEL/v1", "COPILOT_MODEL": "gpt-5"}},
	"gemini":   {Env: map[string]string{"GOOGLE_GEMINI_BASE_URL": "http://MODEL"}}, // and .gemini/settings.json
	"opencode": {Env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"provider": {"anthropic": {"options": {"baseURL": "http://MODEL/v1"}}}}`}},
	"pi":       {}, // ~/.pi/agent/models.json
	"qwen":     {Env: map[string]string{"OPENAI_BASE_URL": "http://MODEL/v1"}},
}

// cmdAgentProfile makes built-in agents talk to the modelserver: it writes profiles of the user's
// own that differ in the address only.
func cmdAgentProfile(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "agentprofile NAME...")
	model := "host.agentbox.internal:" + ts.Getenv("MODELPORT")
	for _, name := range args {
		p, err := (agents.Dirs{User: ts.MkAbs("none")}).Find(name)
		ts.Check(err)
		p = movedTo(p, addresses[name], model)
		text, err := yaml.Marshal(p)
		ts.Check(err)
		dir := filepath.Join(ts.Getenv("AGENTBOX_HOME"), "agents")
		ts.Check(os.MkdirAll(dir, 0o700))
		ts.Check(os.WriteFile(filepath.Join(dir, name+".yaml"), text, 0o600))
	}
}

// movedTo is a profile whose API is at model, HOST:PORT.
func movedTo(p, address agents.Profile, model string) agents.Profile {
	there := func(text string) string { return strings.ReplaceAll(text, "MODEL", model) }
	p.Flags = slices.Clone(p.Flags)
	for _, flag := range address.Flags {
		p.Flags = append(p.Flags, there(flag))
	}
	env := maps.Clone(p.Env)
	if env == nil {
		env = map[string]string{}
	}
	for name, value := range address.Env {
		env[name] = there(value)
	}
	p.Env, p.Hosts, p.Private = env, nil, []string{model}
	p.Secrets = slices.Clone(p.Secrets)
	for i := range p.Secrets {
		p.Secrets[i].To = []string{"http://" + model}
		if p.Secrets[i].Header == "" {
			p.Secrets[i].Header, p.Secrets[i].As = "Authorization", policy.Bearer
		}
	}
	return p
}
