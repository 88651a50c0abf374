package resources

// Yield is how far processes give way to what this machine's owner runs.
type Yield int

const (
	// YieldNone: they are as good as the owner's own.
	YieldNone Yield = iota
	// YieldMost gets a tenth of a CPU for which the owner's programs wait.
	YieldMost
	// YieldAll gets what nobody else wants.
	YieldAll
)
