package daemon

import (
	"testing"

	"agentbox/agentbox/host/supervisors/supervisortest"
)

func TestMain(m *testing.M) { supervisortest.Main(m) }
