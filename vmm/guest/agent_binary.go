package guest

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"runtime"

	"agentbox/agentbox"
)

//go:generate sh build-agent.sh

// The directory always has its README, so that a checkout without the agent compiles.
//
//go:embed embedded
var embedded embed.FS

// Agent is the guest agent for machines of this host's architecture: a static Linux ELF.
func Agent() ([]byte, error) {
	name := "embedded/agentbox-guest-linux-" + runtime.GOARCH + ".gz"
	f, err := embedded.Open(name)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Missing, "this agentbox was built without a guest agent").WithHint("build with `make build`")
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
