//go:build supervisor

package runsc

import "embed"

// A supervisor runs what its daemon has unpacked, and has no copy of it: the descriptions say which
// files these are.
//
//go:embed embedded/README embedded/*.json
var embedded embed.FS
