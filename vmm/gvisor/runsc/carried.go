//go:build !supervisor

package runsc

import "embed"

// The directory always has its README, so that a checkout without the programs compiles.
//
//go:embed embedded
var embedded embed.FS
