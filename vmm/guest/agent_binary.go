package guest

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"runtime"
	"strings"

	"agentbox/agentbox"
)

//go:generate sh build-agent.sh

// The directory always has its README, so that a checkout without the agent compiles.
//
//go:embed embedded
var embedded embed.FS

// agentName is the agent for this host's processor: guests have the same.
const agentName = "embedded/agentbox-guest-linux-" + runtime.GOARCH

// noAgent is for a checkout that was built without `go generate`.
func noAgent() error {
	return agentbox.Errorf(agentbox.Missing, "this agentbox was built without a guest agent").WithHint("build with `make build`")
}

// AgentDigest is that of what Agent gives. It costs nothing, while Agent unpacks. Templates and
// kernel directories depend on it, so it is asked for at every start.
func AgentDigest() (agentbox.Digest, error) {
	text, err := embedded.ReadFile(agentName + ".sha256")
	if err != nil {
		return agentbox.Digest{}, noAgent()
	}
	d, err := agentbox.ParseDigest(strings.TrimSpace(string(text)))
	if err != nil {
		return d, agentbox.Errorf(agentbox.Corrupt, "embedded guest agent: %w", err).WithHint("build with `make build`")
	}
	return d, nil
}

// Agent is the guest agent for machines of this host's architecture: a static Linux ELF. It unpacks
// some megabytes at each call. Errors have code Missing or Corrupt.
func Agent() ([]byte, error) {
	f, err := embedded.Open(agentName + ".gz")
	if err != nil {
		return nil, noAgent()
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "embedded guest agent: %w", err).WithHint("build with `make build`")
	}
	agent, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("embedded guest agent: %w", err)
	}
	return agent, nil
}
