package daemon

import (
	"testing"

	"agentbox/tools/suites/supervisortest"
)

func TestMain(m *testing.M) { supervisortest.Main(m) }
