package yielding

import "agentbox/agentbox/resources"

// Nice is the level as nice(1) has it: 19 is a 70th of what 0 gets, 10 a tenth.
func Nice(level resources.Yield) int {
	if level == resources.YieldAll {
		return 19
	}
	return 10
}
