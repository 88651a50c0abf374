package daemon

import (
	"testing"

	"agentbox/agentbox/place/local/supervisors/supervisortest"
)

func TestMain(m *testing.M) { supervisortest.Main(m) }
