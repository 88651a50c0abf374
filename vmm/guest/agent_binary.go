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

// agentName is the agent for this host's processor, which its guests have too.
const agentName = "embedded/agentbox-guest-linux-" + runtime.GOARCH

// noAgent is the error of a checkout that was built without `go generate`.
func noAgent() error {
	return agentbox.Errorf(agentbox.Missing, "this agentbox was built without a guest agent").WithHint("build with `make build`")
}

// AgentDigest is the digest of Agent. It costs nothing, while Agent decompresses. Templates and
// kernel directories depend on it, so every start asks for it.
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

// Agent is the guest agent for this host's architecture, a static Linux ELF. It decompresses some
// megabytes at each call. Errors have code Missing or Corrupt.
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
